"""Which submissions are not settled yet, and which failures the application has not looked at."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from ottla.model.errors import OttlaError, TransactionAborted
from ottla.producer.batches import BatchOutcome
from ottla.producer.deliveries import Submission
from ottla.producer.memory import BufferMemory
from ottla.producer.settled_rows import Recipient, SettledRows

LOG = logging.getLogger(__name__)
FAILURES_KEPT = 1_000


class Settlement:
    """Thread-safe. Runs the application's callbacks, so no lock may be held by the caller."""

    def __init__(self, memory: BufferMemory) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        # Called with the error of records that fail, before their deliveries know it.
        self.on_failure: Callable[[OttlaError], None] | None = None
        self._open: dict[int, Submission] = {}
        self._failed: list[Recipient] = []

    def opened(self, submission: Submission) -> None:
        """Make a flush wait for this submission from now on."""
        self._open[id(submission)] = submission

    def updated(self, submission: Recipient) -> None:
        """Note that rows of the submission were settled, or that it got its last row."""
        if submission.has_failed:
            with self._lock:
                if submission not in self._failed[-1:] and len(self._failed) < FAILURES_KEPT:
                    self._failed.append(submission)
        if submission.is_done:
            self._open.pop(id(submission), None)

    def settle_rows(self, settled: Iterable[tuple[Recipient, SettledRows]]) -> None:
        """Report to submissions the outcome of rows that were never queued."""
        for submission, run in settled:
            if run.error is not None and self.on_failure is not None:
                self.on_failure(run.error)
            submission.settle([run])
            self.updated(submission)

    def settle(self, outcomes: Iterable[BatchOutcome]) -> None:
        """Report to submissions the outcome of their batches, and release the memory."""
        failed: dict[tuple[str, int], tuple[int, OttlaError]] = {}
        reports: dict[int, tuple[Recipient, list[SettledRows]]] = {}
        freed = 0
        for outcome in outcomes:
            if outcome.error is not None:
                topic_partition = (outcome.parts[0].submission.topic, outcome.partition)
                count, error = failed.get(topic_partition, (0, outcome.error))
                failed[topic_partition] = count + sum(part.count for part in outcome.parts), error
            freed += sum(part.held_bytes for part in outcome.parts)
            for part, run in outcome.runs():
                reports.setdefault(id(part.submission), (part.submission, []))[1].append(run)
        self._memory.release(freed)
        if failed and self.on_failure is not None:
            self.on_failure(next(iter(failed.values()))[1])
        for submission, runs in reports.values():
            submission.settle(runs)
            self.updated(submission)
        for (topic, partition), (count, error) in failed.items():
            level = logging.DEBUG if isinstance(error, TransactionAborted) else logging.WARNING
            LOG.log(level, "%s-%d: %d records failed: %s", topic, partition, count, error)

    def open_submissions(self) -> list[Submission]:
        """Return the submissions with rows that are not settled."""
        return list(self._open.values())

    def unseen_failures(self) -> list[OttlaError]:
        """Return the first failure of each submission whose failures were not looked at; each is returned
        once.
        """
        with self._lock:
            failed, self._failed = self._failed, []
        failures = (submission.take_unseen_failure() for submission in failed)
        return [failure for failure in failures if failure is not None]

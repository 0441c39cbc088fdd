"""One stream of a mirror: the loop of a thread that reads, sends, and commits what the target has stored.

    poll ─▶ send ─▶ … ─▶ flush ─▶ note offsets ─▶ commit      every offset.commit.interval.ms,
                                                              before partitions are released, and at the end

With `exactly_once` the records, the notes and the positions are one transaction of the target; the commit of
the source's group comes after it. A transaction is ended at a cut of the source, where none of its
transactions is divided (`cut_source`).

Otherwise a position is committed only after all records before it are acknowledged. So a mirror that crashes
at any point loses nothing; records that were sent after the last commit are sent twice.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack

from ottla.client.clock import MONOTONIC, Deadline
from ottla.consumer.reading.reader_state import Stopped
from ottla.mirror.exactly_once import TargetTransactions
from ottla.mirror.offset_runs import OffsetRun
from ottla.mirror.outbox import MirrorCounts, Outbox
from ottla.mirror.sources import MirrorSource, Positions, SourceEvents
from ottla.model.errors import CorruptRecord
from ottla.model.topic_partition import TopicAndPartition

log = logging.getLogger(__name__)

LAST_CUT_MS = 5_000.0
"""How long a mirror that is stopped keeps reading to reach the next cut."""
Note = Callable[[Mapping[TopicAndPartition, list[OffsetRun]], Mapping[TopicAndPartition, int]], None]
"""Stores which source offsets became which target offsets, before positions are committed."""


class MirrorStream:
    """One stream. `open_source` is called in the thread of the stream."""

    def __init__(
        self,
        open_source: Callable[[SourceEvents], MirrorSource],
        outbox: Outbox,
        counts: MirrorCounts,
        *,
        note: Note,
        unmirrored: frozenset[str],
        commit_interval_ms: float,
        waits_for_each: bool,
        is_stopping: threading.Event,
        transactions: TargetTransactions | None = None,
    ) -> None:
        self._open_source = open_source
        self._outbox = outbox
        self._counts = counts
        self._note = note
        self._unmirrored = unmirrored
        self._commit_interval_ms = commit_interval_ms
        self._waits_for_each = waits_for_each
        self._is_stopping = is_stopping
        self._transactions = transactions
        self._since_ms = MONOTONIC.now_ms()  # the last commit, or the begin of the transaction
        self._source: MirrorSource | None = None

    @property
    def stopped(self) -> Stopped:
        """The partitions that cannot be read at present, and why."""
        return self._source.stopped if self._source is not None else {}

    def run(self) -> None:
        """Mirror until the mirror stops. Raises what ends it."""
        with ExitStack() as stack:
            if self._transactions is not None:
                stack.enter_context(self._transactions)
            events = SourceEvents(self.checkpoint, self._forget, self._resume)
            self._source = source = self._open_source(events)
            stack.callback(source.close)
            while not self._is_stopping.is_set():
                self._step(source)
            self._finish(source)

    def _finish(self, source: MirrorSource) -> None:
        """Read on to the next cut, and commit. After LAST_CUT_MS leave it to the next run."""
        deadline = Deadline(MONOTONIC, LAST_CUT_MS)
        while not source.is_at_cut and not deadline.passed:
            self._step(source)
        if source.is_at_cut:
            self.checkpoint()
        else:
            log.warning("stopped within transactions of the source: what is not committed is sent again")

    def _step(self, source: MirrorSource) -> None:
        try:
            chunk = source.poll()
        except CorruptRecord:
            # Commit what is before the damage, so that the next run does not copy it again.
            self.checkpoint()
            raise
        if chunk is not None:
            if chunk.topic_partition.topic in self._unmirrored:
                self._outbox.skip(chunk)
            else:
                self._begin()
                self._outbox.send(chunk)
        if self._waits_for_each:
            self._outbox.flush()
        self._outbox.harvest()
        if self._is_due(source):
            self.checkpoint()

    def _is_due(self, source: MirrorSource) -> bool:
        passed_ms = MONOTONIC.now_ms() - self._since_ms
        if passed_ms < self._commit_interval_ms:
            return False
        is_late = self._transactions is not None and passed_ms >= self._transactions.longest_ms
        return source.is_at_cut or is_late

    def _begin(self) -> None:
        if self._transactions is not None and self._transactions.begin():
            self._since_ms = MONOTONIC.now_ms()

    def checkpoint(self) -> None:
        """Flush, then commit. Raises MirrorFailed without a commit if records are not stored."""
        self._outbox.flush()
        self._since_ms = MONOTONIC.now_ms()
        positions = self._outbox.positions
        if not positions or self._source is None:
            return
        self._begin()
        self._note(self._outbox.take_runs(), positions)
        if self._transactions is not None:
            self._tell_of_divided(self._source)
            self._transactions.commit(positions)
        if self._source.commit(positions):
            self._outbox.forget(positions)
            self._counts.add(commits=1)
            log.info("%d partitions are committed", len(positions))

    def _tell_of_divided(self, source: MirrorSource) -> None:
        if source.divides:
            level = logging.DEBUG if self._counts.divided else logging.WARNING
            log.log(
                level, "a commit may divide transactions of the source: they overlap, or copying takes long"
            )
            self._counts.add(divided=1)

    # --- partitions come and go

    def _forget(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Drop these partitions: other members may read them.

        Records in a transaction still count: nobody else writes.
        """
        if self._transactions is None:
            self._outbox.forget(partitions)

    def _resume(self, committed: Positions) -> Positions:
        """Return where to continue according to the target, if the source's group is behind; the group gets
        these positions.

        The group is ahead only if it has mirrored without transactions meanwhile.
        """
        if self._transactions is None:
            return {}
        known = self._transactions.positions | self._outbox.positions
        ahead = {each: known[each] for each, offset in committed.items() if known.get(each, -1) > offset}
        for topic_partition, offset in ahead.items():
            self._outbox.resume(topic_partition, offset)
        return ahead

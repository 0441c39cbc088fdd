"""What became of records: futures for single ones and for whole batches.

A `Submission` is some rows that were handed in together: those of one `send_batch`, or as many `send` calls
as went into one piece of columns. Sender threads settle its rows, run by run; a `Delivery` is one row of it,
and costs two references.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.model.errors import OttlaError

LOG = logging.getLogger(__name__)

Rows: TypeAlias = "range | npt.NDArray[np.int64]"
"""Numbers of rows of a submission, ascending."""

UNKNOWN_OFFSET = -1
NO_TIME = -1
NO_TIMES: npt.NDArray[np.int64] = np.zeros(0, np.int64)


class RecordMetadata(NamedTuple):
    """Where a record is. `offset` is -1 with acks=0; `timestamp` is the record's, or when the log took it."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Settled(NamedTuple):
    """A run of rows that went into one partition one behind the other, or failed together."""

    rows: Rows
    partition: int
    base_offset: int
    append_time_ms: int
    error: OttlaError | None


class Delivery:
    """The future of one record. Made by the producer, which fills it in: a call would cost as much again."""

    __slots__ = ("row", "submission")

    submission: Submission
    row: int

    @classmethod
    def of(cls, submission: Submission, row: int) -> Delivery:
        """One row of a submission."""
        delivery = cls()
        delivery.submission = submission
        delivery.row = row
        return delivery

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self.submission.find(self.row) is not None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; waits for it. Raises why it failed, or TimeoutError after so many seconds."""
        submission, row = self.submission, self.row
        settled, position = submission.wait_row(row, timeout)
        if settled.error is not None:
            submission.is_seen = True
            raise settled.error.with_traceback(None)
        timestamp = settled.append_time_ms
        if timestamp == NO_TIME:
            timestamp = int(submission.timestamps[row])
        offset = settled.base_offset
        return RecordMetadata(
            submission.topic, settled.partition, offset if offset < 0 else offset + position, timestamp
        )

    def exception(self, timeout: float | None = None) -> OttlaError | None:
        """Why it failed, None if it did not; waits for it. Raises TimeoutError after so many seconds."""
        self.submission.is_seen = True
        return self.submission.wait_row(self.row, timeout)[0].error


class BatchDelivery:
    """The future of the rows of one `send_batch`."""

    __slots__ = ("_submission",)

    def __init__(self, submission: Submission) -> None:
        self._submission = submission

    def __len__(self) -> int:
        return self._submission.count

    def done(self) -> bool:
        """Whether the outcome of every row is known."""
        return self._submission.is_done

    def result(self, timeout: float | None = None) -> pa.RecordBatch:
        """`partition` and `offset` of every row, in the order of the rows; waits for them.

        Raises why the first row of those that failed did; `failures` has all of them. Raises TimeoutError
        after so many seconds. Offsets are -1 with acks=0.
        """
        failures = self.failures(timeout)
        if failures:
            raise failures[0][1].with_traceback(None)
        partitions, offsets = self._submission.places()
        return pa.record_batch({"partition": partitions, "offset": offsets})

    def failures(self, timeout: float | None = None) -> list[tuple[Rows, OttlaError]]:
        """Rows that are not known to be stored, with the reason; waits for all. Raises TimeoutError."""
        submission = self._submission
        submission.wait_all(timeout)
        submission.is_seen = True
        failed = [(one.rows, one.error) for one in submission.settled if one.error is not None]
        return sorted(failed, key=lambda failure: int(failure[0][0]))


OnDelivery: TypeAlias = Callable[[Delivery], None]
OnBatchDelivery: TypeAlias = Callable[[BatchDelivery], None]


class Submission:
    """Rows and their outcome. `count` grows while rows are collected, and stays from `close` on."""

    __slots__ = (
        "_changed",
        "_left",
        "_lock",
        "_places",
        "_run_numbers",
        "callbacks",
        "count",
        "has_failed",
        "is_seen",
        "on_done",
        "settled",
        "timestamps",
        "topic",
    )

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.count = 0
        self.settled: list[Settled] = []
        self.timestamps: npt.NDArray[np.int64] = NO_TIMES
        self.callbacks: dict[int, OnDelivery] = {}
        self.on_done: OnBatchDelivery | None = None
        self.has_failed = False  # some row has
        self.is_seen = False  # somebody has looked at a failure
        self._left: int | None = None
        # Taken itself, not through the condition: a Ctrl-C in the condition's own code would keep it shut.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._places: tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]] | None = None
        self._run_numbers: npt.NDArray[np.int32] | None = None

    def close(self, count: int) -> None:
        """There are so many rows, and no more come."""
        with self._lock:
            self.count = count
            self._left = count - sum(len(one.rows) for one in self.settled)
            self._changed.notify_all()
        self._finish()

    @property
    def is_done(self) -> bool:
        """Whether every row is settled."""
        return self._left is not None and self._left <= 0  # below: a Ctrl-C came between rows and their count

    def settle(self, runs: Sequence[Settled]) -> None:
        """Tell what became of rows; each row is told of once. Runs their callbacks."""
        with self._lock:
            self.settled += runs
            self.has_failed = self.has_failed or any(run.error is not None for run in runs)
            if self._left is not None:
                self._left -= sum(len(run.rows) for run in runs)
            self._changed.notify_all()
        if self.callbacks:
            for run in runs:
                self._call_back(run)
        self._finish()

    def _finish(self) -> None:
        if self.on_done is None or not self.is_done:
            return
        with self._lock:
            on_done, self.on_done = self.on_done, None
        if on_done is not None:
            self.is_seen = True
            _called(on_done, BatchDelivery(self))

    def _call_back(self, run: Settled) -> None:
        for row in run.rows:
            callback = self.callbacks.pop(int(row), None)
            if callback is not None:
                self.is_seen = True
                _called(callback, Delivery.of(self, int(row)))

    # ---- looking

    def find(self, row: int) -> tuple[Settled, int] | None:
        """The run that has a row, and its place in it; None if it is not settled."""
        candidates: Sequence[Settled] = self.settled
        if self.is_done:  # then it is looked up, since many rows may ask
            candidates = (self.settled[self._numbers_of_runs()[row]],)
        for run in candidates:
            rows = run.rows
            if isinstance(rows, range):
                if row in rows:
                    return run, row - rows.start
            else:
                at = int(np.searchsorted(rows, row))
                if at < len(rows) and rows[at] == row:
                    return run, at
        return None

    def _numbers_of_runs(self) -> npt.NDArray[np.int32]:
        """Of each row, when all are settled."""
        if self._run_numbers is None:
            numbers = np.empty(self.count, np.int32)
            for number, run in enumerate(self.settled):
                numbers[_selection(run.rows)] = number
            self._run_numbers = numbers
        return self._run_numbers

    def wait_row(self, row: int, timeout: float | None) -> tuple[Settled, int]:
        """As `find`, but waits. Raises TimeoutError."""
        found = self.find(row)
        if found is not None:
            return found
        with self._lock:
            if not self._changed.wait_for(lambda: self.find(row) is not None, timeout):
                raise TimeoutError(f"a record for {self.topic} is not delivered after {timeout} s")
        found = self.find(row)
        assert found is not None
        return found

    def wait_all(self, timeout: float | None) -> None:
        """Wait for every row. Raises TimeoutError."""
        with self._lock:
            if not self._changed.wait_for(lambda: self.is_done, timeout):
                raise TimeoutError(
                    f"{self._left or self.count:,} records for {self.topic} are not delivered"
                    f" after {timeout} s"
                )

    def places(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Partition and offset of every row, all of which are settled."""
        if self._places is None:
            partitions = np.empty(self.count, np.int32)
            offsets = np.empty(self.count, np.int64)
            for run in self.settled:
                rows = _selection(run.rows)
                partitions[rows] = run.partition
                if run.base_offset < 0:
                    offsets[rows] = UNKNOWN_OFFSET
                else:
                    offsets[rows] = np.arange(run.base_offset, run.base_offset + len(run.rows))
            self._places = partitions, offsets
        return self._places


def _selection(rows: Rows) -> slice | npt.NDArray[np.int64]:
    """Rows as NumPy takes them."""
    return slice(rows.start, rows.stop) if isinstance(rows, range) else rows


_running = threading.local()


def check_not_in_callback(name: str) -> None:
    """Raise RuntimeError where waiting would be for ever."""
    if getattr(_running, "is_callback", False):
        raise RuntimeError(f"{name}() in on_delivery would wait for itself: call it in another thread")


def _called(callback: Callable[[object], None] | OnDelivery | OnBatchDelivery, delivery: object) -> None:
    """Run what a user gave; the producer's thread must survive it, a sys.exit() too."""
    _running.is_callback = True
    try:
        callback(delivery)  # type: ignore[arg-type]
    except (Exception, SystemExit):
        LOG.exception("on_delivery %r failed", callback)
    finally:
        _running.is_callback = False

"""The outcomes of records: futures for single records and for batches.

A `Submission` is the rows that were handed in together: those of one `send_batch`, or of as many `send` calls
as became one set of columns. Sender threads settle its rows, run by run. A `Delivery` is one row of it, and
costs two references.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.client.clock import Condition, wait_for
from ottla.client.network_errors import CLUSTER, NetworkErrors, topic
from ottla.model.errors import OttlaError
from ottla.producer.settled_rows import NO_TIME, UNKNOWN_OFFSET, RowNumbers, SettledRows

LOG = logging.getLogger(__name__)

NO_TIMES: npt.NDArray[np.int64] = np.zeros(0, np.int64)


class RecordMetadata(NamedTuple):
    """Where a record is. `offset` is -1 with acks=0; `timestamp` is the record's or the log's append time.

    >>> from ottla import Producer
    >>> with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
    ...     metadata = producer.send("orders", "milk", timestamp_ms=1_700_000_000_000).result(timeout=30)
    >>> metadata
    RecordMetadata(topic='orders', partition=0, offset=3, timestamp=1700000000000)
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class Delivery:
    """The future of one record; `Producer.send` returns it.

    >>> from ottla import Producer
    >>> with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
    ...     delivery = producer.send("orders", "milk")
    ...     print(delivery.result(timeout=30).offset)
    3
    >>> delivery.done(), delivery.exception()
    (True, None)
    """

    __slots__ = ("_row", "_submission")

    _submission: Submission
    _row: int

    @classmethod
    def _of(cls, submission: Submission, row: int) -> Delivery:
        """Return the delivery of one row of a submission."""
        delivery = cls()
        delivery._submission = submission
        delivery._row = row
        return delivery

    def __repr__(self) -> str:
        return f"<Delivery to {self._submission.topic!r}: {self._submission.outcome(self._row)}>"

    def done(self) -> bool:
        """Whether the record is stored or has failed."""
        return self._submission.find(self._row) is not None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; waits up to `timeout` seconds. Raises its error, or TimeoutError."""
        submission, row = self._submission, self._row
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
        """Return the error of a failed record, else None; waits up to `timeout` seconds. Raises
        TimeoutError.
        """
        self._submission.is_seen = True
        return self._submission.wait_row(self._row, timeout)[0].error


class BatchDelivery:
    """The future of the rows of one `Producer.send_batch`.

    >>> import pyarrow
    >>> from ottla import Producer
    >>> with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
    ...     delivery = producer.send_batch("orders", pyarrow.table({"value": ["milk", "honey"]}))
    >>> delivery.result()["offset"].to_pylist(), delivery.failures()
    ([3, 4], [])
    """

    __slots__ = ("_submission",)

    def __init__(self, submission: Submission) -> None:
        self._submission = submission

    def __repr__(self) -> str:
        submission = self._submission
        state = "done" if submission.is_done else "under way"
        failed = ", with failures" if submission.has_failed else ""
        return f"<BatchDelivery of {submission.count} rows to {submission.topic!r}: {state}{failed}>"

    def __len__(self) -> int:
        return self._submission.count

    def done(self) -> bool:
        """Whether every row is stored or has failed."""
        return self._submission.is_done

    def result(self, timeout: float | None = None) -> pa.RecordBatch:
        """Columns `partition` and `offset`, one row for each row that was sent, in order; waits for all.

        Raises the error of the first row that failed; `failures` has all of them. Raises TimeoutError after
        `timeout` seconds. Offsets are -1 with acks=0.
        """
        failures = self.failures(timeout)
        if failures:
            raise failures[0][1].with_traceback(None)
        partitions, offsets = self._submission.locations()
        return pa.record_batch({"partition": partitions, "offset": offsets})

    def failures(self, timeout: float | None = None) -> list[tuple[RowNumbers, OttlaError]]:
        """(row numbers, error) of rows that failed; waits for all rows. Raises TimeoutError."""
        submission = self._submission
        submission.wait_all(timeout)
        submission.is_seen = True
        failed = [(run.rows, run.error) for run in submission.settled if run.error is not None]
        return sorted(failed, key=lambda failure: int(failure[0][0]))


OnDelivery: TypeAlias = Callable[[Delivery], None]
OnBatchDelivery: TypeAlias = Callable[[BatchDelivery], None]


class Submission:
    """Rows that were handed in together, and their outcomes. `count` grows until `close`."""

    __slots__ = (
        "_changed",
        "_errors",
        "_left",
        "_locations",
        "_lock",
        "_run_numbers",
        "callbacks",
        "count",
        "has_failed",
        "is_seen",
        "on_done",
        "settled",
        "timestamps",
        "topic",
        "watcher",
    )

    def __init__(self, topic: str, errors: NetworkErrors) -> None:
        self.topic = topic
        self._errors = errors
        self.count = 0
        self.settled: list[SettledRows] = []
        self.timestamps: npt.NDArray[np.int64] = NO_TIMES
        self.callbacks: dict[int, OnDelivery] = {}
        self.on_done: OnBatchDelivery | None = None
        self.has_failed = False  # a row has failed
        self.is_seen = False  # the application has looked at a failure
        # Called when rows are settled, in addition to threads that wait.
        self.watcher: Condition | None = None
        self._left: int | None = None
        # Locked directly, not through the condition: a Ctrl-C in the condition's code would keep it locked.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._locations: tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]] | None = None
        self._run_numbers: npt.NDArray[np.int32] | None = None

    def close(self, count: int) -> None:
        """There are `count` rows, and no more will come."""
        with self._lock:
            self.count = count
            self._left = count - sum(len(run.rows) for run in self.settled)
            self._changed.notify_all()
        if self.watcher is not None:
            self.watcher.notify_all()
        self._finish()

    @property
    def is_done(self) -> bool:
        """Whether every row is settled."""
        # Below 0 if a Ctrl-C came between a row and its count.
        return self._left is not None and self._left <= 0

    def settle(self, runs: Sequence[SettledRows]) -> None:
        """Set the outcome of rows; each row once. Runs their callbacks."""
        with self._lock:
            self.settled += runs
            self.has_failed = self.has_failed or any(run.error is not None for run in runs)
            if self._left is not None:
                self._left -= sum(len(run.rows) for run in runs)
            self._changed.notify_all()
        if self.watcher is not None:
            self.watcher.notify_all()
        if self.callbacks:
            for run in runs:
                self._call_back(run)
        self._finish()

    def take_unseen_failure(self) -> OttlaError | None:
        """Return the first failure, and count it as looked at; None if a failure was looked at before."""
        if self.is_seen:
            return None
        self.is_seen = True
        return next((run.error for run in self.settled if run.error is not None), None)

    def _finish(self) -> None:
        if self.on_done is None or not self.is_done:
            return
        with self._lock:
            on_done, self.on_done = self.on_done, None
        if on_done is not None:
            self.is_seen = True
            _called(on_done, BatchDelivery(self))

    def _call_back(self, run: SettledRows) -> None:
        for row in run.rows:
            callback = self.callbacks.pop(int(row), None)
            if callback is not None:
                self.is_seen = True
                _called(callback, Delivery._of(self, int(row)))

    # ---- looking

    def find(self, row: int) -> tuple[SettledRows, int] | None:
        """Return the run that has this row, and the row's index in it; None if the row is not settled."""
        candidates: Sequence[SettledRows] = self.settled
        if self.is_done:  # use an index, since many rows may be looked up
            candidates = (self.settled[self._numbers_of_runs()[row]],)
        for run in candidates:
            rows = run.rows
            if isinstance(rows, range):
                if row in rows:
                    return run, row - rows.start
            else:
                index = int(np.searchsorted(rows, row))
                if index < len(rows) and rows[index] == row:
                    return run, index
        return None

    def outcome(self, row: int) -> str:
        """Return the outcome of a row in words. Its failure does not count as seen by that."""
        settled, position = self.find(row) or (None, 0)
        if settled is None:
            return "under way"
        if settled.error is not None:
            return f"failed: {settled.error}"
        if settled.base_offset < 0:
            return f"sent to partition {settled.partition}"
        return f"in partition {settled.partition} at offset {settled.base_offset + position}"

    def _numbers_of_runs(self) -> npt.NDArray[np.int32]:
        """Return the number of the run of each row, when all are settled."""
        if self._run_numbers is None:
            numbers = np.empty(self.count, np.int32)
            for number, run in enumerate(self.settled):
                numbers[_selection(run.rows)] = number
            self._run_numbers = numbers
        return self._run_numbers

    def wait_row(self, row: int, timeout: float | None) -> tuple[SettledRows, int]:
        """As `find`, but waits. Raises TimeoutError."""
        settled = self.find(row)
        if settled is not None:
            return settled
        with self._lock:
            if not wait_for(self._changed, lambda: self.find(row) is not None, timeout):
                raise self._late("a record", "is", timeout)
        settled = self.find(row)
        assert settled is not None
        return settled

    def wait_all(self, timeout: float | None) -> None:
        """Wait for every row. Raises TimeoutError."""
        with self._lock:
            if not wait_for(self._changed, lambda: self.is_done, timeout):
                raise self.late(timeout)

    def late(self, timeout: float | None) -> TimeoutError:
        """Return the error for a caller that has waited too long for all rows."""
        left = self._left or self.count
        return self._late(f"{left:,} records" if left else "records", "are", timeout)

    def _late(self, what: str, verb: str, timeout: float | None) -> TimeoutError:
        """Return the error for a caller whose time is over, with the cause if it is known."""
        subject = topic(self.topic)
        error = TimeoutError(
            f"{what} for {self.topic} {verb} not delivered after {timeout:.3g} s{self._errors.cause(subject)}"
        )
        error.__cause__ = self._errors.of(subject, CLUSTER)
        return error

    def locations(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return partition and offset of every row; all must be settled."""
        if self._locations is None:
            partitions = np.empty(self.count, np.int32)
            offsets = np.empty(self.count, np.int64)
            for run in self.settled:
                rows = _selection(run.rows)
                partitions[rows] = run.partition
                if run.base_offset < 0:
                    offsets[rows] = UNKNOWN_OFFSET
                else:
                    offsets[rows] = np.arange(run.base_offset, run.base_offset + len(run.rows))
            self._locations = partitions, offsets
        return self._locations


def _selection(rows: RowNumbers) -> slice | npt.NDArray[np.int64]:
    """Rows as an index for NumPy."""
    return slice(rows.start, rows.stop) if isinstance(rows, range) else rows


_running = threading.local()


def check_not_in_callback(name: str) -> None:
    """Raise RuntimeError inside on_delivery, where waiting would never end."""
    if getattr(_running, "is_callback", False):
        raise RuntimeError(f"{name}() in on_delivery would wait for itself: call it in another thread")


def _called(callback: Callable[[object], None] | OnDelivery | OnBatchDelivery, delivery: object) -> None:
    """Run the application's callback. The producer's thread must survive it, even a sys.exit()."""
    _running.is_callback = True
    try:
        callback(delivery)  # type: ignore[arg-type]
    except (Exception, SystemExit):
        LOG.exception("on_delivery %r failed", callback)
    finally:
        _running.is_callback = False


class BufferFull(OttlaError):
    """`buffer.memory` was full for `max.block.ms`: the brokers take less than is handed in. Nothing was lost.

    `send_batch`: the first `accepted` rows were accepted, and `delivery` is theirs. `send`: the record was
    not accepted, and `delivery` is None.
    """

    def __init__(self, message: str, delivery: BatchDelivery | None = None, accepted: int = 0) -> None:
        super().__init__(message)
        self.delivery = delivery
        self.accepted = accepted

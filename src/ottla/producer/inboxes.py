"""Where user threads hand records in, one inbox a topic: rows into lists, columns as they are, in order.

Rows are collected until there are enough of them, or until `linger.ms` is over; then they become columns,
and go the way of `send_batch`: partitioned, cut into parts, added to the partitions' queues. An inbox's lock
is held while that happens, so that whoever hands in next is behind. Locks are taken inbox first, core second.
"""

from __future__ import annotations

import operator
import threading
import time
from array import array
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.model.errors import ConfigError, OttlaError
from ottla.producer.deliveries import UNKNOWN_OFFSET, Delivery, OnDelivery, Rows, Settled, Submission
from ottla.producer.errors import ProducerClosed, RecordTooLarge
from ottla.producer.partitioners import TopicPartitioner, by_partition, no_such_partition
from ottla.producer.parts import COLUMNS, PARTITION, Part, Sizes, batch_size
from ottla.records.columns import HEADERS

if TYPE_CHECKING:
    from ottla.producer.dispatcher import Dispatcher, KnownTopic

Bytes: TypeAlias = bytes | bytearray | memoryview | str
HeaderPairs: TypeAlias = "Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]"
Header: TypeAlias = dict[str, Any]
Groups: TypeAlias = "list[tuple[int, list[Part]]]"

# What a row takes in memory beside its bytes: three objects' headers, three places in lists, its delivery.
ROW_OVERHEAD = 160
CREDIT_BYTES = 64 * 1024
SEALED_BYTES = 1 << 20
TIMESTAMP_MAX = 1 << 60
NEVER = float("inf")

_time = time.time


def as_bytes(value: object, name: str) -> bytes:
    """A key or value as bytes; text as UTF-8. Raises ConfigError for anything else."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise ConfigError(f"{name} is of type {type(value).__name__}: bytes, text or None can be sent")


def ended() -> ProducerClosed:
    """The error for records that come too late."""
    return ProducerClosed("the producer was closed before the records could be sent")


def as_int(value: object, name: str) -> int:
    """A number of a record. Raises ConfigError for anything else."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ConfigError(f"{name} is of type {type(value).__name__}: a whole number is wanted")
    return operator.index(value)


def header_rows(headers: HeaderPairs) -> list[Header]:
    """A record's headers as Arrow takes them. Raises ConfigError."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        rows = [{"key": key, "value": value} for key, value in pairs]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"headers={headers!r:.100}: pairs of a text and bytes are wanted") from error
    for row in rows:
        if not isinstance(row["key"], str):
            raise ConfigError(f"headers={headers!r:.100}: a header's name is text, not {row['key']!r:.50}")
        if row["value"] is not None:
            row["value"] = as_bytes(row["value"], f"header {row['key']!r}")
    return rows


class Notes(NamedTuple):
    """What most rows do not have."""

    timestamp_ms: int | None
    partition: int | None
    headers: list[Header]
    on_delivery: OnDelivery | None

    @classmethod
    def of(
        cls,
        timestamp_ms: int | None,
        partition: int | None,
        headers: HeaderPairs | None,
        on_delivery: OnDelivery | None,
    ) -> Notes:
        """As a user gave them. Raises ConfigError."""
        if timestamp_ms is not None and not 0 <= as_int(timestamp_ms, "timestamp_ms") <= TIMESTAMP_MAX:
            raise ConfigError(f"timestamp_ms={timestamp_ms}: milliseconds since 1970 are wanted")
        if partition is not None:
            partition = as_int(partition, "partition")
        return cls(timestamp_ms, partition, header_rows(headers) if headers else [], on_delivery)

    @property
    def size(self) -> int:
        """Bytes of the headers."""
        return sum(len(row["key"]) + len(row["value"] or b"") for row in self.headers)


class TopicInbox:
    """Thread-safe."""

    def __init__(self, topic: str, dispatcher: Dispatcher, partitioner: TopicPartitioner) -> None:
        self.topic = topic
        self._record_max = dispatcher.record_max
        self.due_ms = NEVER  # when the rows have waited long enough
        self._dispatcher = dispatcher
        self._partitioner = partitioner
        self._lock = threading.Lock()
        self._credit_step = max(1, min(CREDIT_BYTES, dispatcher.memory.limit // 8))
        self._clear()

    def _clear(self) -> None:
        self.due_ms = NEVER
        self._values: list[bytes | None] = []
        self._keys: list[bytes | None] = []  # up to the last row that has one
        self._times = array("d")  # when rows were handed in, in seconds
        self._given_times: dict[int, int] = {}  # what is to be their time instead, in milliseconds
        self._partitions: dict[int, int] = {}
        self._headers: dict[int, list[Header]] = {}
        self._submission = Submission(self.topic)
        self._created_ms = 0.0
        self._granted = 0  # bytes of the memory budget that this inbox has got,
        self._credit = 0  # and what is left of them

    # ---- rows

    def send(
        self,
        value: Bytes | None,
        key: Bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: HeaderPairs | None,
        on_delivery: OnDelivery | None,
    ) -> Delivery:
        """Take a record; waits for memory. Raises BufferFull, RecordTooLarge, ProducerClosed, ConfigError."""
        # One function and no call for the usual row: every step here is paid for by each record.
        size = ROW_OVERHEAD
        if value is not None:
            value = value if value.__class__ is bytes else as_bytes(value, "value")
            size += len(value)
        if key is not None:
            key = key if key.__class__ is bytes else as_bytes(key, "key")
            size += len(key)
        notes = None
        if partition is not None or timestamp_ms is not None or headers or on_delivery is not None:
            notes = Notes.of(timestamp_ms, partition, headers, on_delivery)
            size += notes.size
        if size > self._record_max:
            self.check_size(size - ROW_OVERHEAD)
            size = self._record_max  # all of buffer.memory will do
        while True:
            with self._lock:
                if self._credit >= size:
                    self._credit -= size
                    values = self._values
                    row = len(values)
                    if not row:
                        self._begin()
                    values.append(value)
                    self._times.append(_time())
                    if key is not None:
                        self._note_key(row, key)
                    if notes is not None:
                        self._note(row, notes)
                    delivery = Delivery()
                    delivery.submission = self._submission
                    delivery.row = row
                    return delivery
            self._earn(size)

    def check_size(self, size: int) -> None:
        """Raise RecordTooLarge for a record of so many bytes."""
        if batch_size(size) > self._record_max:
            config = self._dispatcher.config
            raise RecordTooLarge(
                f"{self.topic}: a record of {size:,} bytes is above max.request.size="
                f"{config.max_request_size:,} or buffer.memory={config.buffer_memory:,}; raise them, and"
                " max.message.bytes of the topic"
            )

    def _note_key(self, row: int, key: bytes) -> None:
        keys = self._keys
        if len(keys) < row:
            keys += [None] * (row - len(keys))
        keys.append(key)

    def _note(self, row: int, notes: Notes) -> None:
        if notes.timestamp_ms is not None:
            self._given_times[row] = notes.timestamp_ms
        if notes.partition is not None:
            self._partitions[row] = notes.partition
        if notes.headers:
            self._headers[row] = notes.headers
        if notes.on_delivery is not None:
            self._submission.callbacks[row] = notes.on_delivery

    def _begin(self) -> None:
        """The first row of a piece."""
        dispatcher = self._dispatcher
        if dispatcher.is_stopped:
            raise ended()
        self._created_ms = dispatcher.clock.now_ms()
        self.due_ms = self._created_ms + dispatcher.config.linger_ms
        dispatcher.opened(self._submission)
        dispatcher.rows_wait(self)

    def _earn(self, size: int) -> None:
        """More memory for rows; when they have had enough of it they go on."""
        if self._granted - self._credit >= self._dispatcher.sealed_bytes:
            self.seal()
        granted = max(size, self._credit_step)
        self._dispatcher.reserve(granted)
        with self._lock:
            self._granted += granted
            self._credit += granted

    def seal(self) -> None:
        """Rows become columns and go on, if the topic is known; else they stay, and it is tried again."""
        with self._lock:
            failures = self._seal()
        for submission, run in failures:
            submission.settle([run])
            self._dispatcher.closed(submission)

    def fail(self, error: OttlaError) -> None:
        """Give up the rows that wait here."""
        with self._lock:
            failures = self._take_failed(error) if self._values else []
        for submission, run in failures:
            submission.settle([run])
            self._dispatcher.closed(submission)

    def _seal(self) -> list[tuple[Submission, Settled]]:
        if not self._values:
            self._dispatcher.memory.release(self._credit)
            self._granted = self._credit = 0
            return []
        known = self._dispatcher.known(self.topic)
        if known is None:
            return []
        submission, created_ms, held = self._submission, self._created_ms, self._granted - self._credit
        submission.timestamps = self._timestamps()
        failures: list[tuple[Submission, Settled]] = []
        try:
            columns, rows, failures = self._placeable(known)
            groups = self._grouped(columns, rows, known, submission, created_ms) if len(rows) else []
        except OttlaError as error:
            return self._take_failed(error)
        except Exception as error:  # noqa: BLE001 - a user's partitioner
            return self._take_failed(ConfigError(f"{self.topic}: the partitioner failed: {error!r}"))
        submission.close(len(self._values))
        sent = sum(part.size for _, parts in groups for part in parts)
        spare = self._credit + held - sent
        self._clear()
        self._dispatcher.memory.release(spare)
        if not self._dispatcher.submit(self.topic, groups):
            failures += [
                (submission, Settled(part.rows, partition, UNKNOWN_OFFSET, -1, ended()))
                for partition, parts in groups
                for part in parts
            ]
        return failures

    def _placeable(self, known: KnownTopic) -> tuple[pa.RecordBatch, Rows, list[tuple[Submission, Settled]]]:
        """The columns of all rows but those for partitions that there are not, which fail alone."""
        columns, count = self._columns(), len(self._values)
        wrong = {row: at for row, at in self._partitions.items() if not 0 <= at < known.partition_count}
        if not wrong:
            return columns, range(count), []
        rows = np.delete(np.arange(count), list(wrong))
        failures = [
            (self._submission, Settled(range(row, row + 1), at, UNKNOWN_OFFSET, -1, error))
            for row, at in wrong.items()
            for error in [no_such_partition(self.topic, at, known.partition_count, "send()")]
        ]
        return columns.take(pa.array(rows)), rows, failures

    def _take_failed(self, error: OttlaError) -> list[tuple[Submission, Settled]]:
        submission, count = self._submission, len(self._values)
        submission.timestamps = self._timestamps()
        submission.close(count)
        self._dispatcher.memory.release(self._granted)
        self._clear()
        return [(submission, Settled(range(count), -1, UNKNOWN_OFFSET, -1, error))]

    def _columns(self) -> pa.RecordBatch:
        count = len(self._values)
        arrays = {
            "value": pa.array(self._values, pa.binary()),
            "timestamp": pa.array(self._submission.timestamps),
        }
        if self._keys:
            missing = [None] * (count - len(self._keys))
            arrays["key"] = pa.array(self._keys + missing, pa.binary())
        if self._headers:
            rows = [self._headers.get(row, []) for row in range(count)]
            arrays["headers"] = pa.array(rows, HEADERS)
        if self._partitions:
            chosen = [self._partitions.get(row) for row in range(count)]
            arrays[PARTITION] = pa.array(chosen, pa.int32())
        return pa.record_batch(arrays)

    def _timestamps(self) -> npt.NDArray[np.int64]:
        times = (np.frombuffer(self._times) * 1000.0).astype(np.int64)
        if self._given_times:
            times[list(self._given_times)] = list(self._given_times.values())
        return times

    # ---- columns

    def take(
        self,
        columns: pa.RecordBatch,
        rows: Rows,
        size: int,
        partition: int | None,
        known: KnownTopic,
        submission: Submission,
    ) -> None:
        """Take columns, for which `size` bytes are reserved, behind the rows that wait. Raises OttlaError."""
        with self._lock:
            failures = self._seal()
            created_ms = self._dispatcher.clock.now_ms()
            if partition is None:
                groups = self._grouped(columns, rows, known, submission, created_ms)
            else:
                groups = [(partition, self._parts(columns, rows, Sizes(columns), submission, created_ms))]
            self._dispatcher.memory.release(size - sum(part.size for _, parts in groups for part in parts))
            is_accepted = self._dispatcher.submit(self.topic, groups)
        for failed, run in failures:
            failed.settle([run])
            self._dispatcher.closed(failed)
        if not is_accepted:
            raise ended()

    def _grouped(
        self,
        columns: pa.RecordBatch,
        rows: Rows,
        known: KnownTopic,
        submission: Submission,
        created_ms: float,
    ) -> Groups:
        """Parts by partition."""
        chosen = self._partitioner.assigned(columns, known.partition_count, known.available)
        if PARTITION in columns.schema.names:
            columns = columns.select([name for name in COLUMNS if name in columns.schema.names])
        if isinstance(chosen, int):
            return [(chosen, self._parts(columns, rows, Sizes(columns), submission, created_ms))]
        order, runs = by_partition(chosen)
        placed = columns.take(pa.array(order))
        sizes = Sizes(placed)
        numbers: npt.NDArray[np.int64] = order + rows.start if isinstance(rows, range) else rows[order]
        return [
            (partition, self._parts(placed, numbers, sizes, submission, created_ms, first, last))
            for partition, first, last in runs
        ]

    def _parts(
        self,
        columns: pa.RecordBatch,
        rows: Rows,
        sizes: Sizes,
        submission: Submission,
        created_ms: float,
        first: int = 0,
        last: int | None = None,
    ) -> list[Part]:
        """Pieces of at most a batch, of the records first to last."""
        wall_ms = int(time.time() * 1000)
        limit = self._dispatcher.part_bytes
        return [
            Part(columns.slice(start, end - start), rows[start:end], size, submission, created_ms, wall_ms)
            for start, end, size in sizes.runs(limit, first, last)
        ]

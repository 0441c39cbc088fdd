"""Where user threads hand records in, one inbox for each topic: rows into lists, columns as they are.

Rows are collected until there are enough of them, or until `linger.ms` is over. Then they become columns and
are handled as those of `send_batch`: partitioned, cut into parts, added to the partitions' queues. The inbox
is locked meanwhile, so that later records stay behind earlier ones. Locks are taken in this order: inbox,
then dispatcher, topic directory or memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.model.errors import ConfigError, OttlaError, ProducerClosed, RecordTooLarge
from ottla.producer.deliveries import Delivery, OnDelivery, Submission
from ottla.producer.dispatcher import Dispatcher
from ottla.producer.intake import PartsByPartition
from ottla.producer.partitioners import TopicPartitioner, by_partition, no_such_partition
from ottla.producer.parts import PARTITION, ColumnSource, Part, Sizes, batch_size, runs
from ottla.producer.producer_state import ProducerParts
from ottla.producer.rows import Bytes, Header, HeaderPairs, Notes, as_bytes
from ottla.producer.settled_rows import RowNumbers, SettledRows
from ottla.producer.topic_directory import KnownTopic
from ottla.producer.whole_parts import WholePart
from ottla.records.builder import NO_PICKS
from ottla.records.columns import HEADERS

# The memory of a row beside its bytes: the headers of three objects, three list slots, its delivery.
ROW_OVERHEAD = 160
FIELDS = 4  # of a row
CREDIT_BYTES = 64 * 1024
SEALED_BYTES = 1 << 20
NEVER = float("inf")

Failures: TypeAlias = list[tuple[Submission, SettledRows]]


def ended() -> ProducerClosed:
    """Return the error for records that come after the end."""
    return ProducerClosed("the producer was closed before the records could be sent")


def wall_ms() -> int:
    """Return the time for a record that has none."""
    return int(time.time() * 1000)


class TopicInbox:
    """The records of one topic. Thread-safe."""

    def __init__(
        self, topic: str, state: ProducerParts, dispatcher: Dispatcher, partitioner: TopicPartitioner
    ) -> None:
        self.topic = topic
        self.due_ms = NEVER  # when the rows have waited long enough
        self._config = state.config
        self._clock = state.clock
        self._dispatcher = dispatcher
        self._topics = state.topics
        self._settlement = state.settlement
        self._memory = state.memory
        self._timer_wanted = state.timer_wanted
        self._partitioner = partitioner
        self._record_max = state.config.record_max
        self._part_bytes = state.config.part_bytes
        self._sealed_bytes = min(SEALED_BYTES, self._config.batch_size, self._config.buffer_memory // 4)
        self._credit_step = max(1, min(CREDIT_BYTES, self._config.buffer_memory // 8))
        self._lock = threading.Lock()
        self._errors = state.errors
        self._clear()

    def _clear(self) -> None:
        self.due_ms = NEVER
        # Value, key, time in seconds and notes of each row, in this order: they are added by one
        # operation, so that a Ctrl-C leaves all of a row or nothing.
        self._rows: list[Any] = []
        self._submission = Submission(self.topic, self._errors)
        self._created_ms = 0.0
        self._granted = 0  # bytes of the memory budget that this inbox has got,
        self._credit = 0  # and what is left of them
        self._needs_topic_since_ms: float | None = None  # a row's partition may be newer than what we know

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
        # One function and no call for the usual row: every step here costs time for each record.
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
            if headers:
                size += notes.size
        if size > self._record_max:
            self.check_size(size - ROW_OVERHEAD)
            size = self._record_max  # a larger record needs all of buffer.memory, and no more
        while True:
            with self._lock:
                if self._credit >= size:
                    self._credit -= size
                    rows = self._rows
                    row = len(rows) // FIELDS
                    if not row:
                        self._begin()
                    rows += (value, key, time.time(), notes)
                    delivery = Delivery()
                    delivery._submission = self._submission
                    delivery._row = row
                    return delivery
            self._earn(size)

    def check_size(self, size: int) -> None:
        """Raise RecordTooLarge if a record of `size` bytes is too large."""
        if batch_size(size) > self._record_max:
            config = self._config
            raise RecordTooLarge(
                f"{self.topic}: a record of {size:,} bytes is above max.request.size="
                f"{config.max_request_size:,} or buffer.memory={config.buffer_memory:,}; raise them, and"
                " max.message.bytes of the topic"
            )

    def _begin(self) -> None:
        """Begin a new submission with the first row since the last `seal`."""
        if self._dispatcher.is_stopped:
            raise ended()
        self._created_ms = self._clock.now_ms()
        self.due_ms = self._created_ms + self._config.linger_ms
        self._settlement.opened(self._submission)
        self._timer_wanted.set()

    def _earn(self, size: int) -> None:
        """Reserve more memory for rows. Before that, queue the rows if they take enough memory."""
        if self._granted - self._credit >= self._sealed_bytes:
            self.seal()
        granted = max(size, self._credit_step)
        self._dispatcher.reserve(granted)
        with self._lock:
            self._granted += granted
            self._credit += granted

    def seal(self) -> None:
        """Make columns of the rows and queue them. If the topic is not known yet, the rows stay."""
        with self._lock:
            failures = self._seal()
        self._settlement.settle_rows(failures)

    @property
    def needs_topic_since_ms(self) -> float | None:
        """Return since when rows wait for news of their topic, because their partition may be new; None if
        none do.
        """
        return self._needs_topic_since_ms

    def fail(self, error: OttlaError) -> None:
        """Fail the rows that wait here."""
        with self._lock:
            failures = self._take_failed(error) if self._rows else []
        self._settlement.settle_rows(failures)

    def _seal(self) -> Failures:
        if not self._rows:
            return self._put_away()
        known = self._topics.known(self.topic)
        if known is None:
            return []
        noted = self._noted()
        if not self._knows_all_partitions(known, noted):
            return []
        submission, created_ms, held = self._submission, self._created_ms, self._granted - self._credit
        failures: Failures = []
        try:
            columns, rows, failures = self._placeable(known, noted)
            groups = []
            if len(rows):
                source = ColumnSource.of(columns, wall_ms())
                groups = self._grouped(
                    source, Sizes(source.records).reach, rows, known, submission, created_ms
                )
        except OttlaError as error:
            return self._take_failed(error)
        except Exception as error:  # noqa: BLE001 - a user's partitioner
            return self._take_failed(ConfigError(f"{self.topic}: the partitioner failed: {error!r}"))
        submission.close(len(self._rows) // FIELDS)
        sent = sum(part.size for _, parts in groups for part in parts)
        spare = self._credit + held - sent
        self._clear()
        self._memory.release(spare)
        if not self._dispatcher.submit(self.topic, groups):
            failures += [
                (submission, SettledRows(part.rows, partition, error=ended()))
                for partition, parts in groups
                for part in parts
            ]
        return failures

    def _knows_all_partitions(self, known: KnownTopic, noted: dict[int, Notes]) -> bool:
        """Whether no row names a partition that may have been added since the brokers were asked."""
        chosen = (notes.partition for notes in noted.values() if notes.partition is not None)
        if max(chosen, default=0) < known.partition_count:
            return True
        if self._needs_topic_since_ms is None:
            self._needs_topic_since_ms = self._clock.now_ms()
        return self._topics.is_fresh(self.topic, self._needs_topic_since_ms)

    def _put_away(self) -> Failures:
        """Release the memory, and end a submission without rows (a Ctrl-C stopped its first row)."""
        granted, submission, was_begun = self._granted, self._submission, self.due_ms != NEVER
        if was_begun:
            submission.close(0)
        self._clear()
        self._memory.release(granted)
        return [(submission, SettledRows(range(0), -1))] if was_begun else []

    def _placeable(
        self, known: KnownTopic, noted: dict[int, Notes]
    ) -> tuple[pa.RecordBatch, RowNumbers, Failures]:
        """Return the columns of all rows whose partition exists. The others fail."""
        columns = self._columns(noted)
        count = columns.num_rows
        if PARTITION not in columns.schema.names:
            return columns, range(count), []
        chosen = columns.column(PARTITION).fill_null(0).to_numpy()
        wrong = np.flatnonzero((chosen < 0) | (chosen >= known.partition_count))
        if not len(wrong):
            return columns, range(count), []
        rows = np.delete(np.arange(count), wrong)
        failures = [
            (self._submission, SettledRows(range(row, row + 1), at, error=error))
            for row, at in zip(wrong.tolist(), chosen[wrong].tolist(), strict=True)
            for error in [no_such_partition(self.topic, at, known.partition_count, "send()")]
        ]
        return columns.take(pa.array(rows)), rows, failures

    def _take_failed(self, error: OttlaError) -> Failures:
        submission, count = self._submission, len(self._rows) // FIELDS
        self._note(self._noted())
        submission.close(count)
        self._memory.release(self._granted)
        self._clear()
        return [(submission, SettledRows(range(count), -1, error=error))]

    def _columns(self, noted: dict[int, Notes]) -> pa.RecordBatch:
        """Return the rows as columns. Also gives their times and callbacks to the submission."""
        rows = self._rows
        self._note(noted)
        keys, times = rows[1::FIELDS], pa.py_buffer(self._submission.timestamps)
        arrays = {
            "value": pa.array(rows[::FIELDS], pa.binary()),
            "timestamp": pa.Array.from_buffers(pa.int64(), len(keys), [None, times]),
        }
        if keys.count(None) < len(keys):
            arrays["key"] = pa.array(keys, pa.binary())
        if any(notes.headers for notes in noted.values()):
            none: list[Header] = []
            of_rows = [noted[row].headers if row in noted else none for row in range(len(keys))]
            arrays["headers"] = pa.array(of_rows, HEADERS)
        if any(notes.partition is not None for notes in noted.values()):
            chosen = [noted[row].partition if row in noted else None for row in range(len(keys))]
            arrays[PARTITION] = pa.array(chosen, pa.int32())
        return pa.record_batch(arrays)

    def _noted(self) -> dict[int, Notes]:
        """Return the optional fields of rows that have any."""
        noted = self._rows[3::FIELDS]
        if noted.count(None) == len(noted):
            return {}
        return {row: notes for row, notes in enumerate(noted) if notes is not None}

    def _note(self, noted: dict[int, Notes]) -> None:
        times = (np.array(self._rows[2::FIELDS]) * 1000.0).astype(np.int64)
        for row, notes in noted.items():
            if notes.timestamp_ms is not None:
                times[row] = notes.timestamp_ms
            if notes.on_delivery is not None:
                self._submission.callbacks[row] = notes.on_delivery
        self._submission.timestamps = times

    # ---- columns

    def take(
        self,
        source: ColumnSource,
        reach: npt.NDArray[np.int64],
        rows: RowNumbers,
        partition: int | None,
        known: KnownTopic,
        submission: Submission,
    ) -> None:
        """Queue columns after the rows that wait; their memory is reserved. Raises OttlaError.

        `reach` has the bytes before each row, and after the last.
        """
        self._submit(
            lambda created_ms: (
                self._grouped(source, reach, rows, known, submission, created_ms)
                if partition is None
                else [(partition, self._parts(source, reach, rows, submission, created_ms))]
            )
        )

    def take_whole(self, partition: int, part: WholePart) -> None:
        """Queue a whole batch after the rows that wait; its memory is reserved. Raises OttlaError."""

        def parts_by_partition(created_ms: float) -> PartsByPartition:
            part.created_ms = created_ms
            return [(partition, [part])]

        self._submit(parts_by_partition)

    def _submit(self, grouped: Callable[[float], PartsByPartition]) -> None:
        is_accepted = False
        needs_topic_since_ms: float | None = 0.0
        while needs_topic_since_ms is not None:
            with self._lock:
                failures = self._seal()
                needs_topic_since_ms = self._needs_topic_since_ms  # None if no rows are left before these
                if needs_topic_since_ms is None:
                    is_accepted = self._dispatcher.submit(self.topic, grouped(self._clock.now_ms()))
            self._settlement.settle_rows(failures)
            if needs_topic_since_ms is not None:
                self._topics.wait_fresh(self.topic, needs_topic_since_ms)
        if not is_accepted:
            raise ended()

    def _grouped(
        self,
        source: ColumnSource,
        reach: npt.NDArray[np.int64],
        rows: RowNumbers,
        known: KnownTopic,
        submission: Submission,
        created_ms: float,
    ) -> PartsByPartition:
        """Return the rows as parts, by partition."""
        chosen = self._partitioner.assigned(source.columns, known.partition_count, known.available)
        if isinstance(chosen, int):
            return [(chosen, self._parts(source, reach, rows, submission, created_ms))]
        placement = by_partition(chosen, reach, known.partition_count)
        order, now_ms, limit = placement.order, wall_ms(), self._part_bytes
        numbers: npt.NDArray[np.int64] = order + rows.start if isinstance(rows, range) else rows[order]
        groups: PartsByPartition = []
        for partition, start, stop in placement.runs:
            picks, own = order[start:stop], numbers[start:stop]
            parts = [
                Part(source, picks[first:last], own[first:last], size, submission, created_ms, now_ms)
                for first, last, size in runs(placement.reach[start:stop], 0, limit)
            ]
            groups.append((partition, parts))
        return groups

    def _parts(
        self,
        source: ColumnSource,
        reach: npt.NDArray[np.int64],
        rows: RowNumbers,
        submission: Submission,
        created_ms: float,
    ) -> list[Part]:
        """Return the rows as parts of at most a batch."""
        now_ms, limit, base = wall_ms(), self._part_bytes, int(reach[0])
        if int(reach[-1]) - base <= limit:
            return [Part(source, NO_PICKS, rows, int(reach[-1]) - base, submission, created_ms, now_ms)]
        return [
            Part(source.part(first, last), NO_PICKS, rows[first:last], size, submission, created_ms, now_ms)
            for first, last, size in runs(reach[1:], base, limit)
        ]

"""Where user threads hand records in, one inbox a topic: rows into lists, columns as they are, in order.

Rows are collected until there are enough of them, or until `linger.ms` is over; then they become columns,
and go the way of `send_batch`: partitioned, cut into parts, added to the partitions' queues. An inbox's lock
is held while that happens, so that whoever hands in next is behind. Locks are taken inbox first, core second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.model.errors import ConfigError, OttlaError
from ottla.producer.deliveries import UNKNOWN_OFFSET, Delivery, OnDelivery, Rows, Settled, Submission
from ottla.producer.errors import ProducerClosed, RecordTooLarge
from ottla.producer.partitioners import TopicPartitioner, by_partition, no_such_partition
from ottla.producer.parts import PARTITION, Part, Sizes, Source, batch_size, runs, wall_ms
from ottla.producer.rows import Bytes, Header, HeaderPairs, Notes, as_bytes
from ottla.producer.whole_parts import WholePart
from ottla.records.builder import NO_PICKS
from ottla.records.columns import HEADERS

if TYPE_CHECKING:
    from ottla.producer.dispatcher import Dispatcher, KnownTopic

Groups: TypeAlias = "list[tuple[int, list[Part]]]"

# What a row takes in memory beside its bytes: three objects' headers, three places in lists, its delivery.
ROW_OVERHEAD = 160
FIELDS = 4  # of a row
CREDIT_BYTES = 64 * 1024
SEALED_BYTES = 1 << 20
NEVER = float("inf")

_time = time.time


def ended() -> ProducerClosed:
    """The error for records that come too late."""
    return ProducerClosed("the producer was closed before the records could be sent")


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
        # Value, key, time in seconds and notes of each row, one behind the other: they come in by one
        # operation, so that a Ctrl-C leaves all of a row here or nothing.
        self._rows: list[Any] = []
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
                    rows = self._rows
                    row = len(rows) // FIELDS
                    if not row:
                        self._begin()
                    rows += (value, key, _time(), notes)
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
            failures = self._take_failed(error) if self._rows else []
        for submission, run in failures:
            submission.settle([run])
            self._dispatcher.closed(submission)

    def _seal(self) -> list[tuple[Submission, Settled]]:
        if not self._rows:
            return self._put_away()
        known = self._dispatcher.known(self.topic)
        if known is None:
            return []
        submission, created_ms, held = self._submission, self._created_ms, self._granted - self._credit
        failures: list[tuple[Submission, Settled]] = []
        try:
            columns, rows, failures = self._placeable(known)
            groups = []
            if len(rows):
                source = Source.of(columns)
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
        self._dispatcher.memory.release(spare)
        if not self._dispatcher.submit(self.topic, groups):
            failures += [
                (submission, Settled(part.rows, partition, UNKNOWN_OFFSET, -1, ended()))
                for partition, parts in groups
                for part in parts
            ]
        return failures

    def _put_away(self) -> list[tuple[Submission, Settled]]:
        """No rows: give the memory back, and end what a row began that a Ctrl-C kept from coming."""
        granted, submission, was_begun = self._granted, self._submission, self.due_ms != NEVER
        if was_begun:
            submission.close(0)
        self._clear()
        self._dispatcher.memory.release(granted)
        return [(submission, Settled(range(0), -1, UNKNOWN_OFFSET, -1, None))] if was_begun else []

    def _placeable(self, known: KnownTopic) -> tuple[pa.RecordBatch, Rows, list[tuple[Submission, Settled]]]:
        """The columns of all rows but those for partitions that there are not, which fail alone."""
        columns = self._columns()
        count = columns.num_rows
        if PARTITION not in columns.schema.names:
            return columns, range(count), []
        chosen = columns.column(PARTITION).fill_null(0).to_numpy()
        wrong = np.flatnonzero((chosen < 0) | (chosen >= known.partition_count))
        if not len(wrong):
            return columns, range(count), []
        rows = np.delete(np.arange(count), wrong)
        failures = [
            (self._submission, Settled(range(row, row + 1), at, UNKNOWN_OFFSET, -1, error))
            for row, at in zip(wrong.tolist(), chosen[wrong].tolist(), strict=True)
            for error in [no_such_partition(self.topic, at, known.partition_count, "send()")]
        ]
        return columns.take(pa.array(rows)), rows, failures

    def _take_failed(self, error: OttlaError) -> list[tuple[Submission, Settled]]:
        submission, count = self._submission, len(self._rows) // FIELDS
        self._note(self._noted())
        submission.close(count)
        self._dispatcher.memory.release(self._granted)
        self._clear()
        return [(submission, Settled(range(count), -1, UNKNOWN_OFFSET, -1, error))]

    def _columns(self) -> pa.RecordBatch:
        """All rows; and tells the submission of their times and callbacks."""
        rows, noted = self._rows, self._noted()
        self._note(noted)
        keys = rows[1::FIELDS]
        arrays = {
            "value": pa.array(rows[::FIELDS], pa.binary()),
            "timestamp": pa.array(self._submission.timestamps),
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
        """The notes of the rows that have any."""
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
        source: Source,
        reach: npt.NDArray[np.int64],
        rows: Rows,
        partition: int | None,
        known: KnownTopic,
        submission: Submission,
    ) -> None:
        """Take columns, for which memory is reserved, behind the rows that wait. Raises OttlaError.

        `reach` has the bytes before each row and those of all.
        """
        self._submit(
            lambda created_ms: (
                self._grouped(source, reach, rows, known, submission, created_ms)
                if partition is None
                else [(partition, self._parts(source, reach, rows, submission, created_ms))]
            )
        )

    def take_whole(self, partition: int, part: WholePart) -> None:
        """Take a batch, for which memory is reserved, behind the rows that wait. Raises OttlaError."""

        def placed(created_ms: float) -> Groups:
            part.created_ms = created_ms
            return [(partition, [part])]

        self._submit(placed)

    def _submit(self, grouped: Callable[[float], Groups]) -> None:
        with self._lock:
            failures = self._seal()
            groups = grouped(self._dispatcher.clock.now_ms())
            is_accepted = self._dispatcher.submit(self.topic, groups)
        for failed, run in failures:
            failed.settle([run])
            self._dispatcher.closed(failed)
        if not is_accepted:
            raise ended()

    def _grouped(
        self,
        source: Source,
        reach: npt.NDArray[np.int64],
        rows: Rows,
        known: KnownTopic,
        submission: Submission,
        created_ms: float,
    ) -> Groups:
        """Parts by partition."""
        chosen = self._partitioner.assigned(source.columns, known.partition_count, known.available)
        if isinstance(chosen, int):
            return [(chosen, self._parts(source, reach, rows, submission, created_ms))]
        placement = by_partition(chosen, reach, known.partition_count)
        order, now_ms, limit = placement.order, wall_ms(), self._dispatcher.part_bytes
        numbers: npt.NDArray[np.int64] = order + rows.start if isinstance(rows, range) else rows[order]
        groups: Groups = []
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
        source: Source,
        reach: npt.NDArray[np.int64],
        rows: Rows,
        submission: Submission,
        created_ms: float,
    ) -> list[Part]:
        """All rows in pieces of at most a batch."""
        now_ms, limit, base = wall_ms(), self._dispatcher.part_bytes, int(reach[0])
        if int(reach[-1]) - base <= limit:
            return [Part(source, NO_PICKS, rows, int(reach[-1]) - base, submission, created_ms, now_ms)]
        return [
            Part(source.part(first, last), NO_PICKS, rows[first:last], size, submission, created_ms, now_ms)
            for first, last, size in runs(reach[1:], base, limit)
        ]

"""Arrow columns into record sets of formats 0, 1 and 2.

Columns by name, all optional but `value`: `key`, `value` (bytes or text), `timestamp` (a time, or integer
milliseconds), `headers` (list<struct<key, value>>, format 2 only). Others are ignored, so what `reader`
decoded can be encoded again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla import kernels
from ottla.kernels import layout
from ottla.model import record_layout
from ottla.model.checksums import crc32c
from ottla.model.errors import ConfigError, LocalProtocolError
from ottla.records.compression import Codec, compress
from ottla.records.inputs import (
    ALL_NULL,
    BinaryInput,
    HeaderInput,
    binary_input,
    header_input,
    record_bytes_max,
    timestamp_input,
)
from ottla.records.record_bytes import legacy_message
from ottla.records.slabs import POOL, SlabPool

# A broker's default message.max.bytes is 1 MiB and twelve.
BATCH_BYTES = 1 << 20
BATCH_BYTES_MAX = 1 << 30
NO_PICKS: npt.NDArray[np.int64] = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a producer writes into batch headers. Offsets and sequences continue from the first record's."""

    base_offset: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("base_offset", self.base_offset, 0, layout.OFFSET_LIMIT - 1),
            ("producer_id", self.producer_id, -1, (1 << 63) - 1),
            ("producer_epoch", self.producer_epoch, -1, (1 << 15) - 1),
            ("base_sequence", self.base_sequence, -1, (1 << 31) - 1),
        ):
            if not low <= value <= high:
                raise ConfigError(f"{name} {value} is not within {low} to {high}")

    def after(self, count: int) -> Stamp:
        """The stamp of what follows `count` records; sequences wrap to 0."""
        sequence = self.base_sequence
        if sequence >= 0:
            sequence = (sequence + count) & 0x7FFFFFFF
        return replace(self, base_offset=self.base_offset + count, base_sequence=sequence)


PLAIN = Stamp()


class Numbering(Enum):
    """How offsets continue from one view to the next. Sequences always continue."""

    LOG = "through all of them, as a log or a Fetch response has them"
    REQUEST = "each from 0, the only number that a broker takes in a Produce request"


def encode(
    columns: pa.RecordBatch | pa.Table,
    *,
    magic: int = 2,
    codec: Codec | str = Codec.NONE,
    level: int | None = None,
    batch_bytes: int = BATCH_BYTES,
    stamp: Stamp = PLAIN,
    numbering: Numbering = Numbering.LOG,
    timestamp_ms: int = record_layout.NO_TIMESTAMP,
    pool: SlabPool = POOL,
) -> list[memoryview]:
    """Encode records in order; each view is a whole batch.

    Joined, they are a record set as a log or a Fetch response holds it. A Produce request carries one view
    a partition, numbered for a REQUEST: brokers refuse anything else.

    A batch holds at most `batch_bytes` before compression; a larger record gets a batch of its own.
    Formats 0 and 1 have no batches: uncompressed, a view holds many messages; compressed, one wrapper.
    `timestamp_ms` is for records without a timestamp.
    """
    if magic not in (0, 1, 2):
        raise ConfigError(f"message format {magic} does not exist: it is 0, 1 or 2")
    if not 0 < batch_bytes <= BATCH_BYTES_MAX:
        raise ConfigError(f"batch_bytes {batch_bytes} is not within 1 to {BATCH_BYTES_MAX}")
    if abs(timestamp_ms) >= layout.ENCODED_TIMESTAMP_LIMIT:
        raise ConfigError(f"timestamp_ms {timestamp_ms} is no time that a record can carry")
    if numbering is Numbering.REQUEST and stamp.base_offset:
        raise ConfigError(f"base_offset {stamp.base_offset} is for a log: a request's batches begin at 0")
    codec = codec if isinstance(codec, Codec) else Codec.named(codec)
    views: list[memoryview] = []
    chunks = _chunks(columns)
    for chunk in chunks:
        records = Records.of(chunk, timestamp_ms)
        if stamp.base_offset + records.count >= layout.OFFSET_LIMIT:
            raise ConfigError(
                f"base_offset {stamp.base_offset} leaves no offsets for {records.count} records"
            )
        if magic == 2:
            piece = EncodedPiece(records, NO_PICKS, records.count, records.bytes_max, timestamp_ms)
            batches = _encode_batches([piece], batch_bytes, stamp, numbering, pool)
            views += (
                batches if codec is Codec.NONE else (_compressed(batch, codec, level) for batch in batches)
            )
        else:
            first = None if numbering is Numbering.REQUEST else stamp.base_offset
            stamped = replace(records, timestamps=records.times(timestamp_ms))
            views += _encode_messages(stamped, magic, codec, level, batch_bytes, first)
        if chunk is not chunks[-1]:
            stamp = stamp.after(records.count)
    return views


def _chunks(columns: pa.RecordBatch | pa.Table) -> list[pa.RecordBatch]:
    """Return as few pieces as Arrow can make: a column of bytes holds 2 GiB at most."""
    if isinstance(columns, pa.RecordBatch):
        return [columns]
    if isinstance(columns, pa.Table):
        return columns.combine_chunks().to_batches()  # type: ignore[no-any-return]
    raise ConfigError(f"records come as a pyarrow RecordBatch or Table, not as {type(columns).__name__}")


@dataclass(frozen=True, slots=True)
class Records:
    """The columns of some records as kernels take them: checked, and copied only where the type differs."""

    count: int
    key: BinaryInput
    value: BinaryInput
    timestamps: npt.NDArray[np.int64]  # empty: none has one
    headers: HeaderInput | None

    @classmethod
    def of(cls, columns: pa.RecordBatch | pa.Table, timestamp_ms: int) -> Records:
        """Check columns and convert them. Raises ConfigError.

        `timestamp_ms` is for records without a timestamp, where others have one.
        """
        names = columns.schema.names
        if "value" not in names:
            raise ConfigError(f"there is no column 'value' among {sorted(names)}")
        for name in ("key", "value", "timestamp", "headers"):
            if names.count(name) > 1:
                raise ConfigError(f"there are {names.count(name)} columns {name!r}")
        timestamps = columns.column("timestamp") if "timestamp" in names else None
        return cls(
            columns.num_rows,
            binary_input(columns.column("key"), "key") if "key" in names else ALL_NULL,
            binary_input(columns.column("value"), "value"),
            timestamp_input(timestamps, columns.num_rows, timestamp_ms),
            header_input(columns.column("headers")) if "headers" in names else None,
        )

    def part(self, first: int, last: int) -> Records:
        """Records first to last."""
        headers = None if self.headers is None else self.headers.part(first, last)
        key, value = self.key.part(first, last), self.value.part(first, last)
        return Records(last - first, key, value, self.timestamps[first:last], headers)

    def times(self, timestamp_ms: int) -> npt.NDArray[np.int64]:
        """The timestamp of each."""
        if self.timestamps.size:
            return self.timestamps
        times = np.full(self.count, timestamp_ms, np.int64)
        times.flags.writeable = False  # the one type that kernels are compiled for
        return times

    @property
    def bytes_max(self) -> int:
        """An upper bound for the size of all records, without batch headers."""
        records = record_bytes_max(self.count, self.key, self.value)
        if self.headers is None:
            return records
        return records + record_bytes_max(self.headers.total, self.headers.key, self.headers.value)

    @property
    def header_arrays(self) -> tuple[object, ...]:
        """The kernel's arguments about headers; all None lets Numba leave that code out."""
        if self.headers is None:
            return (None,) * 7
        return (self.headers.ends, self.headers.key.ends, self.headers.key.data, *self.headers.value)


class EncodedPiece(NamedTuple):
    """Some of the records: the rows `picks`, ascending; if there are no picks, the first `row_count`."""

    records: Records
    picks: npt.NDArray[np.int64]
    row_count: int
    bytes_max: int  # what they take, or more
    timestamp_ms: int  # of all, if the records have none


# ---- format 2


def encode_batch(
    pieces: Sequence[EncodedPiece], *, codec: Codec, level: int | None, stamp: Stamp, pool: SlabPool = POOL
) -> memoryview:
    """Records of several pieces, none of them empty, as one batch for a Produce request.

    Raises LocalProtocolError if they do not fit into a batch.
    """
    views = _encode_batches(pieces, BATCH_BYTES_MAX, stamp, Numbering.REQUEST, pool)
    if len(views) != 1:
        raise LocalProtocolError(f"the records take more than {BATCH_BYTES_MAX:,} bytes; lower batch.size")
    return views[0] if codec is Codec.NONE else _compressed(views[0], codec, level)


def _encode_batches(
    pieces: Sequence[EncodedPiece], batch_bytes: int, stamp: Stamp, numbering: Numbering, pool: SlabPool
) -> list[memoryview]:
    count, bytes_max = sum(piece.row_count for piece in pieces), sum(piece.bytes_max for piece in pieces)
    batches_max = _batches_max(count, bytes_max, batch_bytes)
    lease = pool.lease(bytes_max + batches_max * record_layout.BATCH_OVERHEAD)
    out = lease.slab.array
    table = np.empty((batches_max, layout.ENCODED_COLUMNS), np.int64)
    state = np.zeros(layout.ENCODER_STATE_SIZE, np.int64)
    attributes = record_layout.TRANSACTIONAL if stamp.transactional else 0
    stamps = np.array(
        (stamp.base_offset, attributes, stamp.producer_id, stamp.producer_epoch, stamp.base_sequence)
    )
    path = kernels.path()
    for piece in pieces:
        records = piece.records
        status = path.encode_batches(
            piece.row_count,
            piece.picks,
            *records.key,
            *records.value,
            records.timestamps,
            piece.timestamp_ms,
            *records.header_arrays,
            batch_bytes,
            stamps,
            path.VERIFY,
            piece is pieces[-1],
            out,
            table,
            state,
        )
        _raise_unless_ok(status, state)
    spans = table[: int(state[layout.ENCODED_BATCHES])].tolist()
    if path.VERIFY == layout.VERIFY_LATER:
        for start, end in spans:
            _write_crc(out.data[start:end])
    if numbering is Numbering.REQUEST:
        for start, _ in spans[1:]:
            out[start : start + record_layout.SIZE_AT] = 0  # the base offset, which no checksum covers
    return [memoryview(lease.buffer(start, end - start)) for start, end in spans]


def _batches_max(count: int, bytes_max: int, batch_bytes: int) -> int:
    """Return an upper bound for the number of batches: two neighbouring batches exceed `batch_bytes`
    together.
    """
    pair_bytes = batch_bytes - 2 * record_layout.BATCH_OVERHEAD
    if pair_bytes <= 0:
        return count
    return min(count, 2 * (bytes_max // pair_bytes + 1))


def _raise_unless_ok(status: int, state: npt.NDArray[np.int64]) -> None:
    if status == layout.BAD_FIELD:
        raise LocalProtocolError(
            f"record {int(state[layout.ENCODED_ROW])} cannot be encoded: it is larger than 2 GiB, or its"
            f" timestamp is not within -2**61 to 2**61 ms"
        )
    if status != layout.OK:
        raise AssertionError(f"encode kernel status {status}: the room was computed too small")


def _compressed(batch: memoryview, codec: Codec, level: int | None) -> memoryview:
    """Return the batch with its records compressed: length, codec bits and checksum change."""
    records = compress(codec, batch[record_layout.BATCH_OVERHEAD :], level=level)
    out = bytearray(record_layout.BATCH_OVERHEAD + len(records))
    out[: record_layout.BATCH_OVERHEAD] = batch[: record_layout.BATCH_OVERHEAD]
    out[record_layout.BATCH_OVERHEAD :] = records
    record_layout.SIZE.pack_into(out, record_layout.SIZE_AT, len(out) - record_layout.ENTRY_OVERHEAD)
    out[record_layout.BATCH_ATTRIBUTES_AT + 1] |= codec
    _write_crc(memoryview(out))
    return memoryview(out).toreadonly()


def _write_crc(batch: memoryview) -> None:
    crc = crc32c(batch[record_layout.BATCH_ATTRIBUTES_AT :])
    record_layout.CRC.pack_into(batch, record_layout.BATCH_CRC_AT, crc)


# ---- formats 0 and 1


def _encode_messages(
    records: Records, magic: int, codec: Codec, level: int | None, batch_bytes: int, base_offset: int | None
) -> Iterator[memoryview]:
    """Yield views of messages; without a base offset each view counts from 0."""
    if records.headers is not None:
        raise LocalProtocolError(f"message format {magic} has no headers: they need format 2")
    for first, last in _message_runs(records, batch_bytes):
        part = records.part(first, last)
        offset = 0 if base_offset is None else base_offset + first
        if codec is Codec.NONE:
            yield _messages(part, magic, offset)
        else:
            # Format 1 numbers wrapped messages from 0, format 0 as if they stood alone.
            inner = _messages(part, magic, 0 if magic == 1 else offset)
            value = compress(codec, inner, level=level, magic=magic)
            timestamp = int(part.timestamps.max())
            last_offset = offset + part.count - 1
            yield memoryview(legacy_message(last_offset, magic, codec, timestamp, None, value))


def _message_runs(records: Records, batch_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield runs of rows that fit together into `batch_bytes`; a larger row is a run of its own."""
    sizes = np.full(records.count, record_layout.LEGACY_BODY_AT_V1 + 2 * record_layout.LENGTH_BYTES, np.int64)
    for column in (records.key, records.value):
        if column.ends.size:
            sizes += np.diff(column.ends)
    ends = np.cumsum(sizes)
    first = 0
    while first < records.count:
        room = batch_bytes + (int(ends[first - 1]) if first else 0)
        last = max(first + 1, int(np.searchsorted(ends, room, side="right")))
        yield first, last
        first = last


def _messages(records: Records, magic: int, base_offset: int) -> memoryview:
    out = np.empty(records.bytes_max, np.uint8)
    progress = np.zeros(2, np.int64)
    status = kernels.path().encode_messages(
        records.count, *records.key, *records.value, records.timestamps, magic, base_offset, out, progress
    )
    _raise_unless_ok(status, progress)
    return out[: int(progress[0])].data.toreadonly()

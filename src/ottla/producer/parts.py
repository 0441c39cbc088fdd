"""Columns on their way: taken as users give them, measured, cut into parts that fit a batch.

A `Part` is some rows for one partition, one behind the other, with the submission that waits for them. Parts
are never larger than a batch may be (but for single records), so that forming a batch is putting parts
together. A part refers to rows of the memory that the user handed in: their bytes are copied once, into the
batch that is sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.kernels.layout import BATCH_OVERHEAD, RECORD_OVERHEAD_MAX
from ottla.model.errors import ConfigError
from ottla.producer.deliveries import Rows, Submission
from ottla.records.builder import Piece, Records
from ottla.records.columns import HEADERS, TIMESTAMP

COLUMNS = ("key", "value", "timestamp", "headers")
PARTITION = "partition"

# What a record takes beside key and value, at most as Kafka counts it, and a header beside its own.
RECORD_OVERHEAD = 21
HEADER_OVERHEAD = 10

# Tables in smaller chunks than this are joined first: a part has its price.
CHUNK_ROWS = 512


class Source(NamedTuple):
    """Columns as a user gave them, and the same as the encoder takes them."""

    columns: pa.RecordBatch
    records: Records

    @classmethod
    def of(cls, columns: pa.RecordBatch) -> Source:
        """Raises ConfigError. Records that have no timestamp, where others do, get the present time."""
        return cls(columns, Records.of(columns, wall_ms()))

    def part(self, first: int, last: int) -> Source:
        """Rows first to last."""
        return Source(self.columns.slice(first, last - first), self.records.part(first, last))


def wall_ms() -> int:
    """The time that a record gets if it has none."""
    return int(time.time() * 1000)


class Part:
    """Rows of one submission for one partition. `size` is what they take in a batch, or less, and
    `held_bytes` what is reserved for them of buffer.memory."""

    __slots__ = ("created_ms", "held_bytes", "picks", "rows", "size", "source", "submission", "wall_ms")

    is_whole = False  # a batch that was encoded by somebody else, see `whole_parts`

    def __init__(
        self,
        source: Source,
        picks: npt.NDArray[np.int64],
        rows: Rows,
        size: int,
        submission: Submission,
        created_ms: float,
        wall_ms: int,
        held_bytes: int | None = None,
    ) -> None:
        self.source = source
        self.picks = picks  # which rows of the source, ascending; NO_PICKS: all
        self.rows = rows
        self.size = size
        self.held_bytes = size if held_bytes is None else held_bytes
        self.submission = submission
        self.created_ms = created_ms
        self.wall_ms = wall_ms  # the time of records that have none

    @property
    def count(self) -> int:
        """How many rows."""
        return len(self.rows)

    @property
    def columns(self) -> pa.RecordBatch:
        """The rows by themselves, which is a copy if they are not all of the source's."""
        columns = self.source.columns
        return columns.take(pa.array(self.picks)) if self.picks.size else columns

    @property
    def piece(self) -> Piece:
        """The rows as the encoder takes them."""
        records, count = self.source.records, len(self.rows)
        bytes_max = self.size + count * RECORD_OVERHEAD_MAX
        if records.headers is not None:
            bytes_max += self.size // HEADER_OVERHEAD * RECORD_OVERHEAD_MAX
        return Piece(records, self.picks, count, bytes_max, self.wall_ms)

    def halves(self) -> tuple[Part, Part]:
        """The same rows as two parts."""
        middle = self.count // 2
        reach = Sizes(self.source.records).reach
        if self.picks.size:
            sizes = np.diff(reach)[self.picks]
            first_size, size = int(sizes[:middle].sum()), int(sizes.sum())
        else:
            first_size, size = int(reach[middle] - reach[0]), int(reach[-1] - reach[0])
        first_held = self.held_bytes * first_size // size
        return (
            self._piece(0, middle, first_size, first_held),
            self._piece(middle, self.count, size - first_size, self.held_bytes - first_held),
        )

    def _piece(self, first: int, last: int, size: int, held_bytes: int) -> Part:
        picks, source = self.picks[first:last], self.source
        if not self.picks.size:
            source = source.part(first, last)
        return Part(
            source,
            picks,
            self.rows[first:last],
            size,
            self.submission,
            self.created_ms,
            self.wall_ms,
            held_bytes,
        )


# ---- what users hand in


def taken(columns: pa.RecordBatch | pa.Table) -> list[pa.RecordBatch]:
    """The columns that count, in the types that the encoder takes without a copy, in pieces that Arrow has.

    Raises ConfigError for what is no table, has no `value`, or holds something else than bytes.
    """
    if not isinstance(columns, pa.RecordBatch | pa.Table):
        raise ConfigError(
            f"records come as a pyarrow RecordBatch or Table, not as {type(columns).__name__}:"
            " for one record use send()"
        )
    names = columns.schema.names
    if "value" not in names:
        raise ConfigError(f"there is no column 'value' among {sorted(names)}")
    known = [name for name in (*COLUMNS, PARTITION) if name in names]
    for name in known:
        if names.count(name) > 1:
            raise ConfigError(f"there are {names.count(name)} columns {name!r}")
    arrays = [_cast(columns.column(name), name) for name in known]
    if isinstance(columns, pa.RecordBatch):
        return [pa.RecordBatch.from_arrays(arrays, names=known)]
    table = pa.Table.from_arrays(arrays, names=known)
    if table.column(0).num_chunks * CHUNK_ROWS > table.num_rows:
        table = table.combine_chunks()
    return [batch for batch in table.to_batches() if batch.num_rows]


_KINDS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    PARTITION: pa.int32(),
}


def _cast(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array | pa.ChunkedArray:
    wanted = _KINDS.get(name)
    if name == "timestamp":
        wanted = pa.int64() if pa.types.is_integer(column.type) else TIMESTAMP
    if column.type == wanted:
        return column
    if name == "headers" and not _is_list(column.type):
        raise ConfigError(f"column 'headers' of type {column.type} does not hold {HEADERS}")
    try:
        # Finer units than milliseconds are cut: Kafka keeps no more.
        return pc.cast(column, options=pc.CastOptions(wanted, allow_time_truncate=True))
    except pa.ArrowException as error:
        raise ConfigError(f"column {name!r} of type {column.type} does not hold {wanted}: {error}") from error


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_map(kind)
        or pa.types.is_null(kind)
    )


# ---- sizes


class Sizes:
    """What records take in a batch. `reach` has the bytes before each record, and of all, from any base."""

    __slots__ = ("reach",)

    def __init__(self, records: Records) -> None:
        reach = np.arange(0, (records.count + 1) * RECORD_OVERHEAD, RECORD_OVERHEAD, dtype=np.int64)
        for column in (records.key, records.value):
            if column.ends.size:
                reach += column.ends
        if records.headers is not None:
            ends = records.headers.ends
            reach += ends * np.int64(HEADER_OVERHEAD)
            for column in (records.headers.key, records.headers.value):
                if column.ends.size:
                    reach += column.ends[ends]
        self.reach = reach

    @property
    def largest(self) -> int:
        """Of a single record; 0 if there is none."""
        return int(np.diff(self.reach).max(initial=0))

    @property
    def total(self) -> int:
        """Of all records."""
        return int(self.reach[-1] - self.reach[0])

    def runs(self, limit: int) -> Iterator[tuple[int, int, int]]:
        """First and last record, and size, of runs that take at most `limit` bytes; a larger record alone."""
        return runs(self.reach[1:], int(self.reach[0]), limit)


def runs(reach: npt.NDArray[np.int64], base: int, limit: int) -> Iterator[tuple[int, int, int]]:
    """As `Sizes.runs`; here `reach` has the bytes up to and with each record, counted from `base`."""
    first = 0
    while first < reach.size:
        last = max(first + 1, int(reach.searchsorted(base + limit, side="right")))
        end = int(reach[last - 1])
        yield first, last, end - base
        first, base = last, end


# ---- putting together


def joined(parts: Sequence[Part]) -> tuple[pa.RecordBatch, int]:
    """A copy of several parts' rows as one piece, and the time of those that have none."""
    if len(parts) == 1:
        return parts[0].columns, parts[0].wall_ms
    pieces = [part.columns for part in parts]
    names = set().union(*(columns.schema.names for columns in pieces))
    arrays = {
        name: pa.concat_arrays([_column(columns, name, kind) for columns in pieces])
        for name, kind in (("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS))
        if name in names
    }
    if "timestamp" in names:
        times = [_times(columns, part.wall_ms) for columns, part in zip(pieces, parts, strict=True)]
        arrays["timestamp"] = pa.concat_arrays(times)
    else:
        arrays["timestamp"] = pa.array(
            np.repeat(
                np.array([part.wall_ms for part in parts], np.int64), [len(part.rows) for part in parts]
            )
        )
    return pa.record_batch(arrays), parts[0].wall_ms


def _column(columns: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    return columns.column(name) if name in columns.schema.names else pa.nulls(columns.num_rows, kind)


def _times(columns: pa.RecordBatch, missing_ms: int) -> pa.Array:
    if "timestamp" not in columns.schema.names:
        return pa.array(np.full(columns.num_rows, missing_ms, np.int64))
    times = columns.column("timestamp").cast(pa.int64())
    return times.fill_null(missing_ms) if times.null_count else times


def batch_size(parts_size: int) -> int:
    """What a batch of so many bytes of records takes."""
    return BATCH_OVERHEAD + parts_size

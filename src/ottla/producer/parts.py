"""Columns as users give them: checked, measured, cut into parts that fit a batch. Pure.

A `Part` is some rows for one partition, in order, with the submission that waits for them. Parts are never
larger than a batch may be (except single records), so a batch is just a list of parts. A part refers to rows
in the user's memory: their bytes are copied once, into the batch that is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.model.record_layout import BATCH_OVERHEAD, RECORD_OVERHEAD_MAX
from ottla.producer.settled_rows import Recipient, RowNumbers
from ottla.records.builder import EncodedPiece, Records
from ottla.records.columns import HEADERS, TIMESTAMP
from ottla.records.inputs import cast_cutting_times

COLUMNS = ("key", "value", "timestamp", "headers")
PARTITION = "partition"

# Bytes of a record beside key and value, at most, as Kafka counts; and those of a header.
RECORD_OVERHEAD = 21
HEADER_OVERHEAD = 10

# Tables with smaller chunks than this are combined first: each part costs time.
CHUNK_ROWS = 512


class ColumnSource(NamedTuple):
    """Columns as a user gave them, and the same in the form that the encoder takes."""

    columns: pa.RecordBatch
    records: Records

    @classmethod
    def of(cls, columns: pa.RecordBatch, wall_ms: int) -> ColumnSource:
        """Check columns. Raises ConfigError.

        Records without a timestamp, where others have one, get `wall_ms`.
        """
        return cls(columns, Records.of(columns, wall_ms))

    def part(self, first: int, last: int) -> ColumnSource:
        """Return the rows from `first` up to but not including `last`."""
        return ColumnSource(self.columns.slice(first, last - first), self.records.part(first, last))


class Part:
    """Rows of one submission for one partition. They take at most `size` bytes in a batch; `held_bytes` is
    what they have reserved of buffer.memory."""

    __slots__ = ("created_ms", "held_bytes", "picks", "rows", "size", "source", "submission", "wall_ms")

    is_whole = False  # True for a batch that was encoded elsewhere, see `whole_parts`

    def __init__(
        self,
        source: ColumnSource,
        picks: npt.NDArray[np.int64],
        rows: RowNumbers,
        size: int,
        submission: Recipient,
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
        """Number of rows."""
        return len(self.rows)

    @property
    def columns(self) -> pa.RecordBatch:
        """The rows as columns; a copy, unless they are all rows of the source."""
        columns = self.source.columns
        return columns.take(pa.array(self.picks)) if self.picks.size else columns

    @property
    def piece(self) -> EncodedPiece:
        """The rows in the form that the encoder takes."""
        records, count = self.source.records, len(self.rows)
        bytes_max = self.size + count * RECORD_OVERHEAD_MAX
        if records.headers is not None:
            bytes_max += self.size // HEADER_OVERHEAD * RECORD_OVERHEAD_MAX
        return EncodedPiece(records, self.picks, count, bytes_max, self.wall_ms)

    def halves(self) -> tuple[Part, Part]:
        """Return the same rows as two parts."""
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
    """Return the columns that are sent, in types that the encoder takes without a copy, as record batches.

    Raises ConfigError if it is not a table, has no column `value`, or a column has the wrong type.
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
        return cast_cutting_times(column, wanted)
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
    """Sizes of records in a batch. `reach` has the bytes before each record and after the last."""

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
        """The size of the largest record; 0 if there is none."""
        return int(np.diff(self.reach).max(initial=0))

    @property
    def total(self) -> int:
        """The size of all records."""
        return int(self.reach[-1] - self.reach[0])

    def runs(self, limit: int) -> Iterator[tuple[int, int, int]]:
        """Yield (first, last, size) of runs of at most `limit` bytes; a larger record is a run of its own."""
        return runs(self.reach[1:], int(self.reach[0]), limit)


def runs(reach: npt.NDArray[np.int64], base: int, limit: int) -> Iterator[tuple[int, int, int]]:
    """As `Sizes.runs`; here `reach` has the bytes after each record, counted from `base`."""
    first = 0
    while first < reach.size:
        last = max(first + 1, int(reach.searchsorted(base + limit, side="right")))
        end = int(reach[last - 1])
        yield first, last, end - base
        first, base = last, end


# ---- putting together


def joined(parts: Sequence[Part]) -> tuple[pa.RecordBatch, int]:
    """Return the rows of several parts as one record batch, and the time for rows without a timestamp."""
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
    """Return the size of a batch with `parts_size` bytes of records."""
    return BATCH_OVERHEAD + parts_size

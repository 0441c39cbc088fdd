"""Columns on their way: taken as users give them, measured, cut into parts that fit a batch.

A `Part` is some rows for one partition, one behind the other, with the submission that waits for them. Parts
are never larger than a batch may be (but for single records), so that forming a batch is putting parts
together, and an undivided part is sent from the memory that the user handed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.kernels.layout import BATCH_OVERHEAD
from ottla.model.errors import ConfigError
from ottla.producer.deliveries import Rows, Submission
from ottla.records.columns import HEADERS, TIMESTAMP

COLUMNS = ("key", "value", "timestamp", "headers")
PARTITION = "partition"

# What a record takes beside key and value, at most as Kafka counts it, and a header beside its own.
RECORD_OVERHEAD = 21
HEADER_OVERHEAD = 10

# Tables in smaller chunks than this are joined first: a part has its price.
CHUNK_ROWS = 512


class Part:
    """Rows of one submission for one partition. `size` is what they take in a batch, or less."""

    __slots__ = ("columns", "created_ms", "rows", "size", "submission", "wall_ms")

    def __init__(
        self,
        columns: pa.RecordBatch,
        rows: Rows,
        size: int,
        submission: Submission,
        created_ms: float,
        wall_ms: int,
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.size = size
        self.submission = submission
        self.created_ms = created_ms
        self.wall_ms = wall_ms  # the time of records that have none

    @property
    def count(self) -> int:
        """How many rows."""
        return len(self.rows)

    def halves(self) -> tuple[Part, Part]:
        """The same rows as two parts."""
        middle = self.count // 2
        sizes = Sizes(self.columns)
        return self._piece(0, middle, sizes), self._piece(middle, self.count, sizes)

    def _piece(self, first: int, last: int, sizes: Sizes) -> Part:
        return Part(
            self.columns.slice(first, last - first),
            self.rows[first:last],
            sizes.between(first, last),
            self.submission,
            self.created_ms,
            self.wall_ms,
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
    """What records take in a batch. Looks at Arrow's offsets where it is asked, and computes no column."""

    __slots__ = ("_lists", "_offsets", "_pairs", "count")

    def __init__(self, columns: pa.RecordBatch) -> None:
        self.count = columns.num_rows
        names = columns.schema.names
        self._offsets = [_offsets(columns.column(name)) for name in ("key", "value") if name in names]
        self._lists: npt.NDArray[np.int32] | None = None
        self._pairs: list[npt.NDArray[np.int32]] = []
        if "headers" in names:
            headers = columns.column("headers")
            self._lists = _offsets(headers)
            self._pairs = [
                _offsets(headers.values.field(name).cast(pa.binary())) for name in ("key", "value")
            ]

    def between(self, first: int, last: int) -> int:
        """Of records first to last, the last one not included."""
        size = (last - first) * RECORD_OVERHEAD
        for offsets in self._offsets:
            size += int(offsets[last]) - int(offsets[first])
        if self._lists is not None:
            start, end = self._lists[first], self._lists[last]
            size += int(end - start) * HEADER_OVERHEAD
            for offsets in self._pairs:
                size += int(offsets[end]) - int(offsets[start])
        return size

    def runs(self, limit: int, first: int = 0, last: int | None = None) -> Iterator[tuple[int, int, int]]:
        """First and last record, and size, of runs that take at most `limit` bytes; a larger record alone."""
        last = self.count if last is None else last
        while first < last:
            end = self._end(first, last, limit)
            yield first, end, self.between(first, end)
            first = end

    def _end(self, first: int, last: int, limit: int) -> int:
        if self.between(first, last) <= limit:
            return last
        fits, does_not = first + 1, last
        while does_not - fits > 1:
            middle = (fits + does_not) // 2
            if self.between(first, middle) <= limit:
                fits = middle
            else:
                does_not = middle
        return fits


def _offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    """Arrow's offsets of a binary or list array, one more than it has values."""
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:
        return np.zeros(len(array) + 1, np.int32)
    return np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array) + 1]


# ---- putting together


def joined(parts: Sequence[Part]) -> tuple[pa.RecordBatch, int]:
    """The rows of several parts as one piece, and the time of those that have none."""
    if len(parts) == 1:
        return parts[0].columns, parts[0].wall_ms
    names = set().union(*(part.columns.schema.names for part in parts))
    arrays = {
        name: pa.concat_arrays([_column(part, name, kind) for part in parts])
        for name, kind in (("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS))
        if name in names
    }
    if "timestamp" in names:
        arrays["timestamp"] = pa.concat_arrays([_times(part) for part in parts])
    else:
        arrays["timestamp"] = pa.array(
            np.repeat(
                np.array([part.wall_ms for part in parts], np.int64), [len(part.rows) for part in parts]
            )
        )
    return pa.record_batch(arrays), parts[0].wall_ms


def _column(part: Part, name: str, kind: pa.DataType) -> pa.Array:
    columns = part.columns
    return columns.column(name) if name in columns.schema.names else pa.nulls(part.count, kind)


def _times(part: Part) -> pa.Array:
    if "timestamp" not in part.columns.schema.names:
        return pa.array(np.full(part.count, part.wall_ms, np.int64))
    times = part.columns.column("timestamp").cast(pa.int64())
    return times.fill_null(part.wall_ms) if times.null_count else times


def batch_size(parts_size: int) -> int:
    """What a batch of so many bytes of records takes."""
    return BATCH_OVERHEAD + parts_size

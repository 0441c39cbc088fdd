"""What a decoded record set looks like in Arrow, and the slab that the kernels fill for it.

offset          int64                    not null
timestamp       timestamp[ms, UTC]       null where the record has none
timestamp_type  int8                     -1 none (format 0), 0 create time, 1 log append time
key, value      binary                   null as the producer sent it
headers         list<struct<key: string not null, value: binary>>   only with `headers=True`
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.kernels import layout
from ottla.model import record_layout
from ottla.records.slabs import Lease, SlabPool, part_positions

TIMESTAMP, MICROSECONDS = pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC")
HEADER = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("item", HEADER, nullable=False))

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP),
        pa.field("timestamp_type", pa.int8(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", HEADERS, nullable=False))

TEXT_REPAIR_ROWS = 4096
_EMPTY = [pa.nulls(0, kind) for kind in SCHEMA.types]  # `pa.array` would import pandas, if it is there
_ROW_BYTES = 8 + 8 + 1 + 4 + 4
_BINARY, _INT8, _INT32, _INT64 = pa.binary(), pa.int8(), pa.int32(), pa.int64()


def _binary_sizes(rows: int, data_bytes: int) -> tuple[int, int, int]:
    """Ends, validity, data: the parts of a variable column."""
    return 4 * (rows + 1), (rows + 7) // 8, data_bytes


class _Columns:
    """A slab with parts, and the running totals of the kernel that fills it."""

    lease: Lease
    parts: list[int]

    def _take(self, pool: SlabPool, sizes: tuple[int, ...]) -> None:
        self.parts = part_positions(sizes)
        self.lease = pool.lease(self.parts[-1])
        self.slab = self.lease.slab.array
        self.part_array = np.array(self.parts, np.int64)
        self.state = np.zeros(layout.STATE_SIZE, np.int64)

    def _binary(self, first: int, rows: int, data_bytes: int, nulls: int) -> pa.Array:
        ends, valid, data = self.parts[first : first + 3]
        lease = self.lease
        buffers = [
            lease.buffer(valid, (rows + 7) // 8) if nulls else None,
            lease.buffer(ends, 4 * (rows + 1)),
            lease.buffer(data, data_bytes),
        ]
        return pa.Array.from_buffers(_BINARY, rows, buffers, nulls)


class RecordColumns(_Columns):
    """All columns but headers, with room for `rows` records of `data_bytes` bytes in all.

    Keys and values get room for all bytes each, since either may be empty; untouched memory is free.
    """

    def __init__(self, pool: SlabPool, rows: int, data_bytes: int) -> None:
        binary = _binary_sizes(rows, data_bytes)
        self._take(pool, (8 * rows, 8 * rows, rows, *binary, *binary))

    @property
    def rows(self) -> int:
        """Records decoded so far."""
        return int(self.state[layout.ROWS])

    def totals(self) -> tuple[int, int]:
        """How many records are decoded so far, and the bytes of their columns without bits for nulls."""
        rows, key_bytes, value_bytes = self.state[layout.ROWS : layout.VALUE_BYTES + 1].tolist()
        return rows, rows * _ROW_BYTES + key_bytes + value_bytes

    def offset(self, row: int) -> int:
        """The offset of a decoded record."""
        at = self.parts[layout.OFFSETS_AT] + 8 * row
        return int(self.slab[at : at + 8].view(np.int64)[0])

    def arrays(self) -> list[pa.Array]:
        """What was decoded, in the order of `SCHEMA`."""
        rows, key_bytes, value_bytes, key_nulls, value_nulls, missing, *_ = self.state.tolist()
        if not rows:
            return _EMPTY
        offsets, timestamps, types, *_ = self.parts
        lease = self.lease
        present = self._present(rows) if missing else None
        return [
            pa.Array.from_buffers(_INT64, rows, [None, lease.buffer(offsets, 8 * rows)], 0),
            pa.Array.from_buffers(TIMESTAMP, rows, [present, lease.buffer(timestamps, 8 * rows)], missing),
            pa.Array.from_buffers(_INT8, rows, [None, lease.buffer(types, rows)], 0),
            self._binary(layout.KEY_ENDS_AT, rows, key_bytes, key_nulls),
            self._binary(layout.VALUE_ENDS_AT, rows, value_bytes, value_nulls),
        ]

    def _present(self, rows: int) -> pa.Buffer:
        at = self.parts[layout.TIMESTAMPS_AT]
        timestamps = self.slab[at : at + 8 * rows].view(np.int64)
        return pa.py_buffer(np.packbits(timestamps != record_layout.NO_TIMESTAMP, bitorder="little"))


class HeaderColumns(_Columns):
    """The header list column, with room for `headers` headers of `data_bytes` bytes in `rows` records."""

    def __init__(self, pool: SlabPool, rows: int, headers: int, data_bytes: int) -> None:
        binary = _binary_sizes(headers, data_bytes)
        self._take(pool, (4 * (rows + 1), *binary, *binary))

    def array(self, rows: int) -> pa.Array:
        """The column of the first `rows` records."""
        headers, key_bytes, value_bytes, _, value_nulls, *_ = self.state.tolist()
        key = self._binary(layout.HEADER_KEY_ENDS_AT, headers, key_bytes, 0)
        value = self._binary(layout.HEADER_VALUE_ENDS_AT, headers, value_bytes, value_nulls)
        structs = pa.StructArray.from_arrays([_text(key), value], fields=list(HEADER))
        ends = pa.Array.from_buffers(_INT32, rows + 1, [None, self.lease.buffer(0, 4 * (rows + 1))], 0)
        return pa.ListArray.from_arrays(ends, structs, type=HEADERS)


class HeaderSpans(NamedTuple):
    """Where each record's headers begin and end; filled by the decode kernels, read by the header kernel."""

    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: int) -> HeaderSpans:
        """Room for the given number of records."""
        return cls(np.empty(rows, np.int64), np.empty(rows, np.int64))

    def source_position(self, row: int) -> tuple[int, int]:
        """In which source, and where in it, a record's headers begin."""
        start = int(self.start[row])
        return (1, ~start) if start < 0 else (0, start)

    def total_bytes(self, rows: int) -> int:
        """Return the size of the headers of the first `rows` records."""
        start = self.start[:rows]
        return int((self.stop[:rows] - np.where(start < 0, ~start, start)).sum())


def _text(keys: pa.Array) -> pa.Array:
    """Header keys as strings. Bytes that are not UTF-8 become U+FFFD, as Java's reader does it."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        # A few at a time: as Python objects, they take many times their size.
        pieces = [keys[at : at + TEXT_REPAIR_ROWS] for at in range(0, len(keys), TEXT_REPAIR_ROWS)]
        return pa.concat_arrays([_repaired(piece) for piece in pieces])


def _repaired(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())


# --- times: a producer may write any number of milliseconds


def in_microseconds(times: pa.Array) -> pa.Array:
    """The timestamps of records in microseconds; null where that is no 64-bit number: after 290,000 years."""
    try:
        return times.cast(MICROSECONDS)
    except pa.ArrowInvalid:
        import pyarrow.compute as pc  # takes a while, and such times are rare

        fits = pc.less_equal(pc.abs(times.cast(_INT64)), ((1 << 63) - 1) // 1000)
        return pc.if_else(fits, times, pa.scalar(None, times.type)).cast(MICROSECONDS)


def plain_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows as dictionaries. The timestamp is in milliseconds: Python's own times end in the year 9999."""
    at = batch.schema.get_field_index("timestamp")
    rows: list[dict[str, Any]] = batch.set_column(at, "timestamp", batch.column(at).cast(_INT64)).to_pylist()
    return rows

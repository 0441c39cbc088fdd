"""What a decoded record set looks like in Arrow, and the buffers that the kernels fill for it.

    offset          int64                    not null
    timestamp       timestamp[ms, UTC]       null where the record has none
    timestamp_type  int8                     -1 none (format 0), 0 create time, 1 log append time
    key, value      binary                   null as the producer sent it
    headers         list<struct<key: string not null, value: binary>>   only when asked for
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.kernels import layout
from ottla.records.slabs import Lease, SlabPool, carved_size

TIMESTAMP = pa.timestamp("ms", tz="UTC")
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

EMPTY_INT64: npt.NDArray[np.int64] = np.empty(0, np.int64)


class BinaryColumn:
    """Offsets, data and validity of one variable column, carved from a slab."""

    __slots__ = ("data", "ends", "lease", "valid")

    @staticmethod
    def sizes(rows: int, data_bytes: int) -> list[int]:
        """The parts that it carves."""
        return [4 * (rows + 1), data_bytes, (rows + 7) // 8]

    def __init__(self, lease: Lease, rows: int, data_bytes: int) -> None:
        self.lease = lease
        self.ends = lease.carve(4 * (rows + 1)).view(np.int32)
        self.ends[0] = 0
        self.data = lease.carve(data_bytes)
        self.valid = lease.carve((rows + 7) // 8)
        self.valid.fill(0xFF)

    def array(self, rows: int, data_bytes: int, nulls: int, kind: pa.DataType) -> pa.Array:
        """The first `rows` values."""
        valid = self.lease.buffer(self.valid, (rows + 7) // 8) if nulls else None
        ends = self.lease.buffer(self.ends, 4 * (rows + 1))
        return pa.Array.from_buffers(
            kind, rows, [valid, ends, self.lease.buffer(self.data, data_bytes)], nulls
        )


class RecordColumns:
    """All columns but headers, with room for `rows` records of `data_bytes` bytes in all."""

    def __init__(self, pool: SlabPool, rows: int, data_bytes: int) -> None:
        binary = BinaryColumn.sizes(rows, data_bytes)
        self.lease = pool.lease(carved_size([8 * rows, 8 * rows, rows, *binary, *binary]))
        self.offsets = self.lease.carve(8 * rows).view(np.int64)
        self.timestamps = self.lease.carve(8 * rows).view(np.int64)
        self.timestamp_types = self.lease.carve(rows).view(np.int8)
        self.key = BinaryColumn(self.lease, rows, data_bytes)
        self.value = BinaryColumn(self.lease, rows, data_bytes)
        self.state = np.zeros(layout.STATE_SIZE, np.int64)

    @property
    def rows(self) -> int:
        """Records decoded so far."""
        return int(self.state[layout.ROWS])

    def outputs(self) -> tuple[npt.NDArray[np.generic], ...]:
        """The buffers, in the order in which the decode kernels take them."""
        key, value = self.key, self.value
        return (
            *(self.offsets, self.timestamps, self.timestamp_types),
            *(key.ends, key.data, key.valid),
            *(value.ends, value.data, value.valid),
        )

    def arrays(self) -> list[pa.Array]:
        """What was decoded, in the order of `SCHEMA`."""
        rows, key_bytes, value_bytes, key_nulls, value_nulls, missing = self.state[:6].tolist()
        lease = self.lease
        return [
            pa.Array.from_buffers(pa.int64(), rows, [None, lease.buffer(self.offsets, 8 * rows)], 0),
            pa.Array.from_buffers(
                TIMESTAMP, rows, [self._present(missing), lease.buffer(self.timestamps, 8 * rows)], missing
            ),
            pa.Array.from_buffers(pa.int8(), rows, [None, lease.buffer(self.timestamp_types, rows)], 0),
            self.key.array(rows, key_bytes, key_nulls, pa.binary()),
            self.value.array(rows, value_bytes, value_nulls, pa.binary()),
        ]

    def _present(self, missing: int) -> pa.Buffer | None:
        if not missing:
            return None
        present = self.timestamps[: self.rows] != layout.NO_TIMESTAMP
        return pa.py_buffer(np.packbits(present, bitorder="little"))


class HeaderColumns:
    """The header list column, with room for `headers` headers of `data_bytes` bytes in `rows` records."""

    def __init__(self, pool: SlabPool, rows: int, headers: int, data_bytes: int) -> None:
        binary = BinaryColumn.sizes(headers, data_bytes)
        self.lease = pool.lease(carved_size([4 * (rows + 1), *binary, *binary]))
        self.list_ends = self.lease.carve(4 * (rows + 1)).view(np.int32)
        self.list_ends[0] = 0
        self.key = BinaryColumn(self.lease, headers, data_bytes)
        self.value = BinaryColumn(self.lease, headers, data_bytes)
        self.state = np.zeros(layout.STATE_SIZE, np.int64)

    def outputs(self) -> tuple[npt.NDArray[np.generic], ...]:
        """The buffers, in the order in which the header kernel takes them."""
        key, value = self.key, self.value
        return self.list_ends, key.ends, key.data, value.ends, value.data, value.valid

    def array(self, rows: int) -> pa.Array:
        """The column of the first `rows` records."""
        headers = int(self.state[layout.ROWS])
        key = self.key.array(headers, int(self.state[layout.KEY_BYTES]), 0, pa.binary())
        nulls = int(self.state[layout.VALUE_NULLS])
        value = self.value.array(headers, int(self.state[layout.VALUE_BYTES]), nulls, pa.binary())
        structs = pa.StructArray.from_arrays([_text(key), value], fields=list(HEADER))
        ends = pa.Array.from_buffers(
            pa.int32(), rows + 1, [None, self.lease.buffer(self.list_ends, 4 * (rows + 1))], 0
        )
        return pa.ListArray.from_arrays(ends, structs, type=HEADERS)


def _text(keys: pa.Array) -> pa.Array:
    """Header keys as strings. Bytes that are not UTF-8 become U+FFFD, as Java's reader does it."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())

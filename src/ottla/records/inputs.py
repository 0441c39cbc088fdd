"""Arrow columns as the encode kernels take them: plain arrays, whatever slice, width or view they came as."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla import kernels
from ottla.model import record_layout
from ottla.model.errors import ConfigError
from ottla.records.columns import HEADERS, TIMESTAMP
from ottla.records.slabs import U8Array

Element = TypeVar("Element", bound=np.generic)

NO_BYTES: U8Array = np.frombuffer(b"", np.uint8)
NO_ENDS: npt.NDArray[np.int32] = np.frombuffer(b"", np.int32)
NO_TIMES: npt.NDArray[np.int64] = np.frombuffer(b"", np.int64)


class BinaryInput(NamedTuple):
    """Offsets, data, validity bitmap (empty: no nulls) and its first bit. No offsets: every value is null."""

    ends: npt.NDArray[np.int32]
    data: U8Array
    valid: U8Array
    valid_at: int

    def part(self, first: int, last: int) -> BinaryInput:
        """Values first to last."""
        return self._replace(ends=self.ends[first : last + 1], valid_at=self.valid_at + first)

    @property
    def data_bytes(self) -> int:
        """The size of all values together."""
        return int(self.ends[-1]) - int(self.ends[0]) if self.ends.size else 0


ALL_NULL = BinaryInput(NO_ENDS, NO_BYTES, NO_BYTES, 0)


class HeaderInput(NamedTuple):
    """Ends of each record's list, and the two columns of all headers."""

    ends: npt.NDArray[np.int32]
    key: BinaryInput
    value: BinaryInput

    def part(self, first: int, last: int) -> HeaderInput:
        """Return the headers of records first to last."""
        return self._replace(ends=self.ends[first : last + 1])

    @property
    def total(self) -> int:
        """How many headers all records have together."""
        return int(self.ends[-1]) - int(self.ends[0])


def _plain(buffer: pa.Buffer | None, kind: type[Element]) -> npt.NDArray[Element]:
    """A buffer as a read-only array: the one type that kernels are compiled for."""
    return np.frombuffer(b"" if buffer is None else memoryview(buffer).toreadonly(), kind)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _checked_ends(ends: npt.NDArray[np.int32], data_bytes: int, name: str) -> npt.NDArray[np.int32]:
    """The offsets, checked: Arrow does not check offsets, and a kernel would follow them out of the data."""
    if ends[0] < 0 or ends[-1] > data_bytes or not kernels.path().ends_ascend(ends):
        raise ConfigError(
            f"column {name!r} is damaged: its offsets do not ascend within {data_bytes:,} bytes"
        )
    return ends


def binary_input(column: pa.Array | pa.ChunkedArray, name: str) -> BinaryInput:
    """A column of bytes or text."""
    array = _whole(column)
    return ALL_NULL if array.null_count == len(array) else _binary_arrays(array, name)


def _binary_arrays(array: pa.Array, name: str) -> BinaryInput:
    if array.type != pa.binary():
        try:
            array = array.cast(pa.binary())
        except pa.ArrowException as error:
            raise ConfigError(f"column {name!r} of type {array.type} does not hold bytes: {error}") from error
    valid, ends, data = array.buffers()
    first, count = array.offset, len(array)
    plain = _plain(data, np.uint8)
    return BinaryInput(
        _checked_ends(_plain(ends, np.int32)[first : first + count + 1], plain.size, name),
        plain,
        _plain(valid, np.uint8) if array.null_count else NO_BYTES,
        first,
    )


def cast_cutting_times(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Cast a column; times of finer units are cut to milliseconds, which is all that Kafka keeps."""
    from pyarrow.compute import CastOptions  # here, since it takes 50 ms to load, and few columns need it

    return column.cast(options=CastOptions(kind, allow_time_truncate=True))


def timestamp_input(
    column: pa.Array | pa.ChunkedArray | None, rows: int, default_ms: int
) -> npt.NDArray[np.int64]:
    """Milliseconds since 1970; `default_ms` where there is none, and no array if there is none at all."""
    if column is None or column.null_count == rows:
        return NO_TIMES
    array = _whole(column)
    try:
        if array.type not in (TIMESTAMP, pa.int64()):
            kind = pa.int64() if pa.types.is_integer(array.type) else TIMESTAMP
            array = cast_cutting_times(array, kind)
    except pa.ArrowException as error:
        raise ConfigError(f"column 'timestamp' of type {array.type} is no time: {error}") from error
    if array.null_count:
        array = array.cast(pa.int64()).fill_null(default_ms)
    return _plain(array.buffers()[1], np.int64)[array.offset : array.offset + rows]


def header_input(column: pa.Array | pa.ChunkedArray) -> HeaderInput | None:
    """A column of list<struct<key, value>>, as `columns.HEADERS`; None if no record has any."""
    array = _whole(column)
    if array.null_count == len(array):
        return None
    try:
        if not _is_list(array.type):  # a list_view loses headers when pyarrow 26 casts it
            raise pa.ArrowInvalid("it is no list")
        if array.null_count:
            array = pa.array([headers or [] for headers in array.to_pylist()], array.type)
        array = array.cast(HEADERS)
    except pa.ArrowException as error:
        raise ConfigError(
            f"column 'headers' of type {array.type} does not hold {HEADERS}: {error}"
        ) from error
    if array.values.null_count:
        raise ConfigError("column 'headers' has a null among a record's headers: it would have no key")
    if not len(array.values):
        return None
    keys = array.values.field("key")
    ends = _checked_ends(array.offsets.to_numpy(), len(array.values), "headers")
    ends.flags.writeable = False
    return HeaderInput(
        ends,
        _binary_arrays(keys, "headers.key"),
        _binary_arrays(array.values.field("value"), "headers.value"),
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind))


def record_bytes_max(rows: int, *inputs: BinaryInput) -> int:
    """More bytes than `rows` records of these columns can take in any format."""
    return rows * record_layout.RECORD_OVERHEAD_MAX + sum(column.data_bytes for column in inputs)

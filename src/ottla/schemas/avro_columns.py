"""Avro to Arrow, column by column: one field of all values at a time.

A value that does not fit its bytes is only marked: the caller decodes it alone, to find the reason. Decimals
and unions of several types are not supported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.kernels import path
from ottla.kernels.numpy_bytes import I64Array, U8Array, numbers_at
from ottla.schemas.decoded import spread

Flags = npt.NDArray[np.bool_]
ITEMS_MAX = 1000
"""Values with longer arrays or maps are decoded alone: one item of each value is read at a time."""


class Span(NamedTuple):
    """The bytes of values: from `at`, which moves field by field, to `stop`.

    A value whose `at` is past its `stop` has failed.
    """

    data: U8Array
    at: I64Array
    stop: I64Array

    def moved(self, after: I64Array, failed: Flags | None = None) -> Span:
        """Return the span after a field. Values that have failed stay past their stop."""
        if failed is not None and failed.any():
            after = np.where(failed, self.stop + 1, after)
        return self._replace(at=after)

    def of(self, rows: I64Array) -> Span:
        """Return the span of some of the values."""
        return Span(self.data, self.at.take(rows), self.stop.take(rows))


_NO_BYTES = np.zeros(8, np.uint8)
_NO_BYTES.setflags(write=False)

Field = tuple[pa.Array, Span]
ColumnReader = Callable[[Span], Field]


def column_reader(schema: Any) -> ColumnReader | None:
    """Return a reader for a schema that fastavro has parsed; None if it has parts that are not supported
    here.
    """
    return _reader(schema, {})


def read_column(column: pa.Array, reader: ColumnReader, skip_bytes: int) -> tuple[pa.Array, Flags]:
    """Return the values of a column of bytes without nulls, and flags for those that have failed.

    Raises pa.ArrowInvalid for texts that are not UTF-8.
    """
    starts, stops, data = _pieces(column)
    values, span = reader(Span(data, starts + skip_bytes, stops))
    return values, span.at != span.stop


def _pieces(column: pa.Array) -> tuple[I64Array, I64Array, U8Array]:
    _, ends, content = column.buffers()
    offsets = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    if data.size < 8:
        data = np.concatenate([data, np.zeros(8, np.uint8)])  # a number can be read at any clipped position
    data = data.view()
    data.setflags(write=False)  # the type that the kernels are compiled for
    return offsets[:-1], offsets[1:], data


def _varints(span: Span) -> tuple[I64Array, I64Array]:
    values, after = np.empty_like(span.at), np.empty_like(span.at)
    path().varint_column(span.data, span.at, span.stop, values, after)
    return values, after


# --- readers


def _reader(schema: Any, named: dict[str, ColumnReader]) -> ColumnReader | None:
    if isinstance(schema, list):
        return _optional(schema, named)
    if isinstance(schema, str):
        return _PRIMITIVES.get(schema) or named.get(schema)
    logical = schema.get("logicalType")
    if logical in _LOGICAL:
        return _cast(_LOGICAL[logical])
    if logical == "decimal":
        return None
    kind = schema["type"]
    made: ColumnReader | None
    if kind in {"record", "error"}:
        made = _record(schema, named)
    elif kind == "enum":
        made = _enum(schema["symbols"])
    elif kind == "fixed":
        made = _fixed(schema["size"])
    else:
        return _repeated(schema, named) if kind in {"array", "map"} else _reader(kind, named)
    if made is not None:
        named[schema["name"]] = made
    return made


def _null(span: Span) -> Field:
    return pa.nulls(span.at.size), span


def _boolean(span: Span) -> Field:
    byte = span.data.take(span.at, mode="clip")
    return pa.array(byte != 0), span.moved(span.at + 1, byte > 1)


def _long(span: Span) -> Field:
    values, after = _varints(span)
    return pa.array(values), span.moved(after)


def _int(span: Span) -> Field:
    values, after = _varints(span)
    return pa.array(values.astype(np.int32)), span.moved(after, (values < -(1 << 31)) | (values >= 1 << 31))


def _floating(kind: str, nbytes: int) -> ColumnReader:
    def read(span: Span) -> Field:
        after = span.at + nbytes
        at = np.minimum(span.at, span.data.size - nbytes)
        return pa.array(numbers_at(span.data, at, kind)), span.moved(after)

    return read


def _sized(span: Span, starts: I64Array, sizes: I64Array) -> Field:
    failed = (sizes < 0) | (starts + sizes > span.stop)
    if failed.any():
        sizes = np.where(failed, 0, sizes)
    ends = np.zeros(sizes.size + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    content = np.empty(int(ends[-1]), np.uint8)
    if content.size:
        path().piece_column(span.data, np.minimum(starts, span.stop), sizes, content)
    values = pa.BinaryArray.from_buffers(
        pa.binary(), sizes.size, [None, pa.py_buffer(ends), pa.py_buffer(content)]
    )
    return values, span.moved(starts + sizes, failed)


def _bytes(span: Span) -> Field:
    sizes, starts = _varints(span)
    return _sized(span, starts, sizes)


def _string(span: Span) -> Field:
    values, after = _bytes(span)
    return values.cast(pa.string()), after


def _fixed(nbytes: int) -> ColumnReader:
    return lambda span: _sized(span, span.at, np.full(span.at.size, nbytes, np.int64))


def _enum(symbols: list[str]) -> ColumnReader:
    names = pa.array(symbols, pa.string())

    def read(span: Span) -> Field:
        values, after = _varints(span)
        failed = (values < 0) | (values >= len(symbols))
        return names.take(pa.array(np.where(failed, 0, values))), span.moved(after, failed)

    return read


class Logical(NamedTuple):
    """A number that means a date or a time: how it is read, and its factor."""

    read: ColumnReader
    type: pa.DataType
    factor: int = 1


def _cast(logical: Logical) -> ColumnReader:
    def read(span: Span) -> Field:
        values, after = logical.read(span)
        if logical.factor != 1:
            numbers = values.to_numpy()
            limit = (1 << 63) // logical.factor - 1
            after = after.moved(after.at, np.abs(numbers) > limit)
            values = pa.array(numbers * logical.factor)
        return values.cast(logical.type), after

    return read


def _record(schema: dict[str, Any], named: dict[str, ColumnReader]) -> ColumnReader | None:
    names = [field["name"] for field in schema["fields"]]
    readers = [_reader(field["type"], named) for field in schema["fields"]]
    known = [reader for reader in readers if reader is not None]
    if len(known) < len(readers) or not known:
        return None

    def read(span: Span) -> Field:
        columns = []
        for reader in known:
            column, span = reader(span)
            columns.append(column)
        return pa.StructArray.from_arrays(columns, names=names), span

    return read


def _repeated(schema: dict[str, Any], named: dict[str, ColumnReader]) -> ColumnReader | None:
    """Return a reader for arrays and maps: blocks, each with the number of its items, and 0 at the end."""
    is_map = schema["type"] == "map"
    inner = _reader(schema["values" if is_map else "items"], named)
    if inner is None:
        return None
    item = _pair(inner) if is_map else inner

    def read(span: Span) -> Field:
        parts: list[pa.Array] = []
        owners: list[I64Array] = []
        ends = np.empty_like(span.at)
        rows, inside, left = np.arange(span.at.size), span, np.zeros_like(span.at)
        for _ in range(ITEMS_MAX):
            inside, left = _in_blocks(inside, left)
            more = (left > 0) & (inside.at <= inside.stop)
            if not more.all():
                ends[rows] = inside.at  # right for those that end here
                kept = np.flatnonzero(more)
                rows, inside, left = rows.take(kept), inside.of(kept), left.take(kept)
            if not rows.size:
                break
            values, inside = item(inside)
            parts.append(values)
            owners.append(rows)
            left = left - 1
        ends[rows] = inside.stop + 1  # too many
        return _lists(parts, owners, span.at.size, is_map=is_map, empty=item), span._replace(at=ends)

    return read


def _in_blocks(span: Span, left: I64Array) -> tuple[Span, I64Array]:
    """Read the number of items of each block that begins, where no items are left of the previous one."""
    begin = np.flatnonzero(left == 0)
    if not begin.size:
        return span, left
    blocks = span if begin.size == left.size else span.of(begin)
    counts, after = _varints(blocks)
    sized = np.flatnonzero(counts < 0)  # the number is negative, and the size of the block follows
    if sized.size:
        _, after[sized] = _varints(Span(span.data, after[sized], blocks.stop[sized]))
        counts = np.abs(counts)
    if blocks is span:
        return span._replace(at=after), counts
    at, left = span.at.copy(), left.copy()
    at[begin], left[begin] = after, counts
    return span._replace(at=at), left


def _pair(inner: ColumnReader) -> ColumnReader:
    def read(span: Span) -> Field:
        keys, span = _string(span)
        values, span = inner(span)
        return pa.StructArray.from_arrays([keys, values], names=["key", "value"]), span

    return read


def _lists(
    parts: list[pa.Array], owners: list[I64Array], count: int, *, is_map: bool, empty: ColumnReader
) -> pa.Array:
    """Return lists of the items, which were read in turns: one of each row at a time."""
    if parts:
        owner, items = owners[0], parts[0]
        if len(parts) > 1:
            owner = np.concatenate(owners)
            items = pa.concat_arrays(parts).take(pa.array(np.argsort(owner, kind="stable")))
    else:
        owner = np.zeros(0, np.int64)
        nothing = np.zeros(0, np.int64)
        items, _ = empty(Span(_NO_BYTES, nothing, nothing))
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(owner, minlength=count), out=ends[1:])
    if is_map:
        return pa.MapArray.from_arrays(pa.array(ends), items.field("key"), items.field("value"))
    return pa.ListArray.from_arrays(pa.array(ends), items)


def _optional(union: list[Any], named: dict[str, ColumnReader]) -> ColumnReader | None:
    if len(union) != 2 or "null" not in union:
        return None
    nullable = 1 - union.index("null")
    inner = _reader(union[nullable], named)
    if inner is None:
        return None

    def read(span: Span) -> Field:
        branch, after = _varints(span)
        span = span.moved(after, (branch < 0) | (branch > 1))
        rows = np.flatnonzero(branch == nullable)
        if rows.size == branch.size:
            return inner(span)
        values, part = inner(span.of(rows))
        at = span.at.copy()
        at[rows] = part.at
        return spread(values, rows, branch.size), span._replace(at=at)

    return read


_PRIMITIVES: dict[str, ColumnReader] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _floating("<f4", 4),
    "double": _floating("<f8", 8),
    "bytes": _bytes,
    "string": _string,
}
_LOGICAL = {
    "date": Logical(_int, pa.date32()),
    "timestamp-millis": Logical(_long, pa.timestamp("us", tz="UTC"), 1000),
    "timestamp-micros": Logical(_long, pa.timestamp("us", tz="UTC")),
    "local-timestamp-millis": Logical(_long, pa.timestamp("us"), 1000),
    "local-timestamp-micros": Logical(_long, pa.timestamp("us")),
}

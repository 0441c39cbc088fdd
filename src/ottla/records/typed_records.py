"""Records whose keys or values have a schema: typed columns; and what cannot be decoded, with reasons."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import pyarrow as pa


class ColumnSchema(Protocol):
    """What turns bytes into rows, and a column of bytes into a typed one: an `ottla.Schema`."""

    def row(self, value: bytes) -> Any:
        """The row of a value."""

    def decode(self, column: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Values, null where they cannot be decoded; and the reasons, null where they can."""


class KeyAndValue(NamedTuple):
    """The schemas of a partition's records; None for plain bytes."""

    key: ColumnSchema | None = None
    value: ColumnSchema | None = None


NO_SCHEMAS = KeyAndValue()


class TypedRecords(NamedTuple):
    """`table` has the records that could be decoded, with typed keys and values; `refused` has the others as
    they are, and why: the column `reason`."""

    table: pa.Table
    refused: pa.Table


def typed_records(batch: pa.RecordBatch, schemas: KeyAndValue) -> TypedRecords:
    """Decode keys and values."""
    typed, reasons = pa.Table.from_batches([batch]), pa.nulls(batch.num_rows, pa.string())
    for name, schema in schemas._asdict().items():
        if schema is not None:
            values, column_reasons = schema.decode(batch.column(name))
            typed = typed.set_column(typed.schema.get_field_index(name), name, values)
            if column_reasons.null_count < len(column_reasons):
                reasons = _joined(reasons, column_reasons, "" if name == "value" else f"{name}: ")
    refused = pa.Table.from_batches([batch]).append_column("reason", reasons)
    if reasons.null_count == len(reasons):
        return TypedRecords(typed, refused.slice(0, 0))
    is_right = reasons.is_null()
    return TypedRecords(typed.filter(is_right), refused.filter(reasons.is_valid()))


def _joined(first: pa.Array, second: pa.Array, where: str) -> pa.Array:
    pairs = zip(first.to_pylist(), second.to_pylist(), strict=True)
    texts = [reason or (where + other if other else None) for reason, other in pairs]
    return pa.array(texts, pa.string())

"""The columns of tables, and whether others can be part of a Delta table as they are. Pure.

delta-rs checks less than a user expects. It casts rows to the table's types, so 1.5 becomes 1; and it adds a
file without looking at the rules and names that the table has for its columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

PLACE = ("topic", "partition", "offset")
"""The columns that say which record a row is made of."""
_SAME = (
    {pa.string(), pa.large_string(), pa.string_view()},
    {pa.binary(), pa.large_binary(), pa.binary_view()},
)
_RULES = re.compile(r"^delta\.(generationExpression|invariants|identity\.)")


def optional(schema: pa.Schema) -> pa.Schema:
    """Return the columns, each of which may be null.

    Spark says of the column 'a text' that it is never null; but rows that are there have no such column, and
    later ones may.
    """
    return pa.schema([_optional(field) for field in schema])


def _optional(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_optional(inner) for inner in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_optional(kind.value_field))
    elif pa.types.is_map(kind):
        key = _optional(kind.key_field).with_nullable(False)  # noqa: FBT003 - pyarrow's only way
        kind = pa.map_(key, _optional(kind.item_field))
    return field.with_type(kind).with_nullable(True)  # noqa: FBT003


def changed(there: pa.Schema, schema: pa.Schema) -> str:
    """Return the first column whose values a table with the columns `there` would change; "" if none."""
    types = {field.name: field.type for field in there}
    for field in schema:
        old = types.get(field.name)
        if old is not None and not _fits(field.type, old):
            return f"column {field.name} is {field.type}, and the table has {old}"
    return ""


def _fits(new: pa.DataType, old: pa.DataType) -> bool:
    """Whether every value of a type is one of another type, too."""
    kinds = pa.types
    if kinds.is_struct(new) and kinds.is_struct(old):
        types = {field.name: field.type for field in old}
        return all(_fits(field.type, types[field.name]) for field in new if field.name in types)
    if _is_list(new) and _is_list(old):
        return _fits(new.value_type, old.value_type)
    if kinds.is_map(new) and kinds.is_map(old):
        return _fits(new.key_type, old.key_type) and _fits(new.item_type, old.item_type)
    if kinds.is_decimal(new) and kinds.is_decimal(old):
        whole = new.precision - new.scale <= old.precision - old.scale
        return bool(whole and new.scale <= old.scale)
    for is_kind in (kinds.is_signed_integer, kinds.is_floating):
        if is_kind(new) and is_kind(old):
            return bool(new.bit_width <= old.bit_width)
    return bool(new == old or kinds.is_null(new) or any({new, old} <= same for same in _SAME))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def unfit(table: Any, wanted: Sequence[Any]) -> str:
    """Return why files of these columns cannot be part of a table; "" if they can.

    What delta-rs does to rows when it writes them is not done to files: rules and computed columns.
    """
    metadata = table.metadata()
    if metadata.partition_columns:
        return f"is partitioned by {', '.join(metadata.partition_columns)}"
    for name, value in metadata.configuration.items():
        if name.startswith("delta.constraints."):
            return f"has the rule {value}"
        if name == "delta.columnMapping.mode" and value != "none":
            return f"has columns by {value} (delta.columnMapping.mode)"
    by_name = {field.name: field for field in wanted}
    return next(filter(None, (_unfit_column(field, by_name) for field in table.schema().fields)), "")


def _unfit_column(field: Any, wanted: Mapping[str, Any]) -> str:
    raw = wanted.get(field.name)
    if raw is None and field.name.lower() in wanted:
        return f"has the column {field.name}, which is not {field.name.lower()}"
    if raw is not None and raw.type != field.type:
        return f"has the column {field.name} as {field.type}, not {raw.type}"
    is_ruled = any(map(_RULES.search, field.metadata)) or not (field.nullable or field.name in PLACE)
    return f"has rules for the column {field.name}" if is_ruled else ""

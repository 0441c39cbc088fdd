"""The fields of JSON values as typed columns, by a sample of a topic's records. Pure.

{"user": "ann", "amount": 3}   ─▶   user VARCHAR, amount BIGINT
"""

from __future__ import annotations

import json
from collections.abc import Iterable

FIELDS_MAX = 200
_NAMES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR", dict: "JSON", list: "JSON"}


def json_fields(values: Iterable[bytes | None]) -> dict[str, str]:
    """The names of the fields and their types in SQL; empty unless most values are JSON objects.

    A field of several types is text; whole numbers and decimals together are decimals.
    """
    kinds: dict[str, set[str]] = {}
    others = objects = 0
    for value in values:
        parsed = _object(value) if value is not None else {}
        if parsed is None:
            others += 1
            continue
        objects += value is not None
        for name, content in parsed.items():
            kinds.setdefault(name, set()).update([_NAMES[type(content)]] if content is not None else [])
    if others > objects:
        return {}
    return {name: _common(field_kinds) for name, field_kinds in list(kinds.items())[:FIELDS_MAX]}


def _object(value: bytes) -> dict[str, object] | None:
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _common(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    return "DOUBLE" if kinds == {"BIGINT", "DOUBLE"} else "VARCHAR"


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def field_columns(fields: dict[str, str], taken: Iterable[str]) -> list[str]:
    """The columns of a view over `value`: one per field whose name is not that of a record's own column.

    A value that is not JSON, or a field of another type, is null.
    """
    reserved = {name.lower() for name in taken}
    columns = []
    for name, kind in fields.items():
        if name.lower() in reserved:
            continue
        reserved.add(name.lower())
        path = "'$." + json.dumps(name, ensure_ascii=False).replace("'", "''") + "'"
        text = f"json_extract_string(value, {path})"
        if kind == "JSON":
            text = f"json_extract(value, {path})"
        if kind == "BLOB":
            text = f"from_base64({text})"
        columns.append(f"try(try_cast({text} as {kind})) as {quoted(name)}")
    return columns

"""Rows as the application wants them: dicts, dataclasses, or classes of pydantic and msgspec; and back."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ottla.model.errors import ConfigError

RowMaking = Callable[[Any], Any]


def row_maker(kind: type) -> RowMaking | None:
    """Return a function that makes a row from a dict; None if rows stay dicts.

    Raises ConfigError for another kind of class.
    """
    if kind is dict:
        return None
    if dataclasses.is_dataclass(kind):
        return partial(_made, kind)
    if hasattr(kind, "model_validate"):
        validate: RowMaking = kind.model_validate
        return validate
    if hasattr(kind, "__struct_fields__"):
        import msgspec  # it has made the class

        return partial(msgspec.convert, type=kind)
    raise ConfigError(f"rows={kind!r}: dict, a dataclass, or a class of pydantic or msgspec is wanted")


def plain_row(row: Any) -> Any:
    """Return what encoders accept: a dict of plain values."""
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return dataclasses.asdict(row)
    if hasattr(row, "model_dump"):
        return row.model_dump()
    if hasattr(row, "__struct_fields__"):
        return {name: plain_row(getattr(row, name)) for name in row.__struct_fields__}
    if isinstance(row, list):
        return [plain_row(item) for item in row]
    return row


def _made(kind: Any, value: Any) -> Any:
    """A value of a type: dataclasses are made of dicts, also inside of lists, dicts and optional fields."""
    if value is None:
        return None
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        known = {field.name for field in dataclasses.fields(kind)}
        fields = {name: _made(hints[name], content) for name, content in value.items() if name in known}
        return kind(**fields)  # type: ignore[operator]  # a class
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        others = [content for content in inner if content is not type(None)]
        return _made(others[0], value) if len(others) == 1 else value
    if origin in {list, tuple} and inner:
        return origin(_made(inner[0], content) for content in value)
    if origin is dict and isinstance(value, Mapping):
        return {name: _made(inner[1], content) for name, content in value.items()}
    return value

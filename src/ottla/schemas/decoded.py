"""A column of decoded values, and why some of them could not be decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.model.errors import OttlaError

SHOWN_BYTES = 40


class Undecodable(OttlaError):
    """A value that is not what its schema says. The text says where, and what is there."""


class DecodedValues(NamedTuple):
    """Values, null where they could not be decoded; and the reasons, null where they could."""

    values: pa.Array
    reasons: pa.Array


class Decoder(Protocol):
    """Decodes columns of one type. Holds nothing open; can be pickled."""

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""

    def decode(self, column: pa.Array) -> DecodedValues:
        """Decode a column of bytes. A null stays null, and is no error."""

    def row(self, value: bytes) -> Any:
        """Decode one value. Raises Undecodable, or what a library raises about strange bytes."""


def decoded_one_by_one(column: pa.Array, kind: pa.DataType, decode: Callable[[bytes], Any]) -> DecodedValues:
    """Decode each value by a function, whose errors become the reasons."""
    rows: list[Any] = []
    reasons: list[str | None] = []
    for value in column.to_pylist():
        row, reason = None, None
        if value is not None:
            try:
                row = decode(value)
            except Exception as error:  # noqa: BLE001 - whatever a library raises about strange bytes is the reason
                reason = f"{error or type(error).__name__}; the value is {shown(value)}"
        rows.append(row)
        reasons.append(reason)
    return DecodedValues(_array(rows, reasons, kind), pa.array(reasons, pa.string()))


def _array(rows: list[Any], reasons: list[str | None], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(rows, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    for number, row in enumerate(rows):  # one value does not fit the type: find it
        try:
            pa.array([row], kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            rows[number], reasons[number] = None, f"a field does not fit its type: {error}"
    return pa.array(rows, kind)


def spread(values: pa.Array, rows: npt.NDArray[np.int64], count: int) -> pa.Array:
    """Return an array of `count` rows with the values at these rows, and null at the others."""
    which = np.zeros(count, np.int64)
    which[rows] = np.arange(rows.size)
    missing = np.ones(count, np.bool_)
    missing[rows] = False
    return values.take(pa.array(which, mask=missing))


def shown(value: bytes) -> str:
    """Return the beginning of a value for a reason, as text if it is text."""
    begin = value[:SHOWN_BYTES]
    text = begin.decode(errors="ignore") if begin.isascii() else ""
    if text.isprintable() and text:
        return f"{text!r}{'…' if len(value) > SHOWN_BYTES else ''}"
    return f"{len(value)} bytes, {begin.hex(' ')}{' …' if len(value) > SHOWN_BYTES else ''}"


def path_of(names: Sequence[str | int]) -> str:
    """The path of a field: order.items[2].price"""
    text = ""
    for name in names:
        text += f"[{name}]" if isinstance(name, int) else f".{name}" if text else name
    return text

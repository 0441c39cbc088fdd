"""State machines as tables: state → input → next state.

A machine's whole behaviour in time is one table that can be read, drawn and tested row by row; the code
around it only acts. An input that a state's row does not list is a mistake of the caller, and the error
says what would have been possible. States and inputs are StrEnums: their hash is that of a string, where
a plain Enum's is a Python call, which is felt at tens of thousands of requests a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from ottla.model.errors import LocalProtocolError

S = TypeVar("S", bound=StrEnum)
I = TypeVar("I", bound=StrEnum)  # noqa: E741 - the alphabet of the machine


def advance(table: Mapping[S, Mapping[I, S]], state: S, what: I) -> S:
    """The state after `what`; LocalProtocolError when the table has no such row."""
    row = table[state]
    after = row.get(what)
    if after is None:
        possible = ", ".join(one.value for one in row) or "nothing"
        raise LocalProtocolError(
            f"{type(state).__name__} {state.value!r}: {what.value!r} is not possible; possible: {possible}"
        )
    return after

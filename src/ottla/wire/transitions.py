"""State machines as tables: state → input → next state.

A machine is one table that can be read, tested row by row and drawn (docs/state-machines.md); the code around
it only acts. An event that a state does not list is a mistake of the caller, and the error lists the possible
ones. States and events are StrEnums: their hash is that of a string, where a plain Enum's is a Python call,
which costs too much at tens of thousands of requests per second.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from ottla.model.errors import LocalProtocolError

S = TypeVar("S", bound=StrEnum)
I = TypeVar("I", bound=StrEnum)  # noqa: E741 - the alphabet of the machine


def advance(table: Mapping[S, Mapping[I, S]], state: S, event: I) -> S:
    """Return the state after `event`. Raises LocalProtocolError if the table has no such row."""
    row = table[state]
    after = row.get(event)
    if after is None:
        possible = ", ".join(listed.value for listed in row) or "nothing"
        raise LocalProtocolError(
            f"{type(state).__name__} {state.value!r}: {event.value!r} is not possible; possible: {possible}"
        )
    return after

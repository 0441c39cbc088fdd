"""A part of a long list, and links to the other parts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

ROWS = 50
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class PageRows(Generic[Item]):
    """The rows of a page. `number` counts from 1."""

    rows: Sequence[Item]
    number: int
    total: int

    @property
    def pages(self) -> int:
        """How many pages there are; at least one."""
        return max(1, -(-self.total // ROWS))


def part_of(items: Sequence[Item], wanted: str) -> PageRows[Item]:
    """The page that is wanted; the nearest one if there is no such page."""
    pages = max(1, -(-len(items) // ROWS))
    number = min(max(1, int(wanted) if wanted.isdecimal() and len(wanted) < 9 else 1), pages)
    return PageRows(items[(number - 1) * ROWS : number * ROWS], number, len(items))

"""Limits the memory of peers that have not logged in: all together little, and the largest is cut first."""

from __future__ import annotations

from typing import Protocol

STRANGERS_BYTES_MAX = 32 << 20
"""The limit for all peers of a listener that have not logged in. A login needs less than the
smallest buffer.
"""


class Stranger(Protocol):
    """A peer that has not logged in."""

    def turn_away(self) -> None:
        """Close its connection, because strangers hold too much memory."""


class Strangers:
    """The peers of one listener that have not logged in. Owned by the loop."""

    def __init__(self) -> None:
        self._held: dict[Stranger, int] = {}
        self.total_bytes = 0

    def hold(self, stranger: Stranger, size: int) -> None:
        """Note that a stranger holds `size` bytes now.

        While the total is too much, the largest one is turned away.
        """
        self.total_bytes += size - self._held.get(stranger, 0)
        self._held[stranger] = size
        while self.total_bytes > STRANGERS_BYTES_MAX:
            greediest = max(self._held, key=self._held.__getitem__)
            self.forget(greediest)
            greediest.turn_away()

    def forget(self, stranger: Stranger) -> None:
        """Forget a stranger: it has logged in, or is gone."""
        self.total_bytes -= self._held.pop(stranger, 0)

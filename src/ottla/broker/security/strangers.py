"""What peers hold in memory before they have logged in: all together little, and the greediest goes first."""

from __future__ import annotations

from typing import Protocol

STRANGERS_BYTES_MAX = 32 << 20
"""Of all peers of a listener that have not logged in. A login needs less than one of its smallest buffers."""


class Stranger(Protocol):
    """A peer that has not logged in."""

    def turn_away(self) -> None:
        """Close its connection: strangers hold too much."""


class Strangers:
    """Those of one listener. Owned by the loop."""

    def __init__(self) -> None:
        self._held: dict[Stranger, int] = {}
        self.total_bytes = 0

    def hold(self, stranger: Stranger, size: int) -> None:
        """A stranger holds so many bytes now. Turns away who holds the most while it is too much."""
        self.total_bytes += size - self._held.get(stranger, 0)
        self._held[stranger] = size
        while self.total_bytes > STRANGERS_BYTES_MAX:
            greediest = max(self._held, key=self._held.__getitem__)
            self.forget(greediest)
            greediest.turn_away()

    def forget(self, stranger: Stranger) -> None:
        """It has logged in, or is gone."""
        self.total_bytes -= self._held.pop(stranger, 0)

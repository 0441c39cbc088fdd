"""Limits the memory of peers that have not logged in: all together little, and the largest is cut first."""

from __future__ import annotations

from typing import Protocol

UNAUTHENTICATED_BYTES_MAX = 32 << 20
"""The limit for all peers of a listener that have not logged in. A login needs less than the
smallest buffer.
"""


class UnauthenticatedPeer(Protocol):
    """A peer that has not logged in."""

    def turn_away(self) -> None:
        """Close its connection, because unauthenticated peers hold too much memory."""


class UnauthenticatedPeers:
    """The peers of one listener that have not logged in. Owned by the loop."""

    def __init__(self) -> None:
        self._held: dict[UnauthenticatedPeer, int] = {}
        self.total_bytes = 0

    def hold(self, peer: UnauthenticatedPeer, size: int) -> None:
        """Note that a peer holds `size` bytes now.

        While the total is too much, the largest one is turned away.
        """
        self.total_bytes += size - self._held.get(peer, 0)
        self._held[peer] = size
        while self.total_bytes > UNAUTHENTICATED_BYTES_MAX:
            greediest = max(self._held, key=self._held.__getitem__)
            self.forget(greediest)
            greediest.turn_away()

    def forget(self, peer: UnauthenticatedPeer) -> None:
        """Forget a peer: it has logged in, or is gone."""
        self.total_bytes -= self._held.pop(peer, 0)

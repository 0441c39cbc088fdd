"""Versions of brokers that do not answer ApiVersions, so that they are probed only once.

0.9 does not answer at all, so each new connection would wait for its timeout. The memory of a broker is
dropped when a connection to it breaks: the broker may come back with a newer version.
"""

from __future__ import annotations

from ottla.model.address import Address
from ottla.wire.versions import PeerVersions, VersionsOrigin


class VersionMemory:
    """Thread-safe: each call is one operation on a dictionary. Bounded by the number of brokers."""

    def __init__(self) -> None:
        self._known: dict[Address, PeerVersions] = {}

    def recall(self, address: Address) -> PeerVersions | None:
        """Return the versions of a broker that was probed; None if it was not."""
        return self._known.get(address)

    def keep(self, address: Address, versions: PeerVersions) -> None:
        """Remember versions that come from probing. Other brokers are asked again on each connection."""
        if versions.origin is VersionsOrigin.PROBED:
            self._known[address] = versions

    def forget(self, address: Address) -> None:
        """Forget a broker, because a connection to it broke."""
        self._known.pop(address, None)

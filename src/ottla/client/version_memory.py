"""Brokers that could not tell their versions, and what was found out: so that it is found out once.

0.9 does not answer the question at all, so each new connection would wait out its timeout. What is
remembered ends when a connection to that broker breaks: it may come back as a newer one.
"""

from __future__ import annotations

from ottla.model.address import Address
from ottla.wire.versions import Origin, PeerVersions


class VersionMemory:
    """Thread-safe: each call is one operation on a dictionary. Bounded by the number of brokers."""

    def __init__(self) -> None:
        self._known: dict[Address, PeerVersions] = {}

    def recall(self, address: Address) -> PeerVersions | None:
        """What was found out about a broker by probing; None if nothing was."""
        return self._known.get(address)

    def keep(self, address: Address, versions: PeerVersions) -> None:
        """Remember what probing has found; what a broker tells itself is asked anew each time."""
        if versions.origin is Origin.PROBED:
            self._known[address] = versions

    def forget(self, address: Address) -> None:
        """The broker went away."""
        self._known.pop(address, None)

"""The canonical names of bootstrap servers (client.dns.lookup=resolve_canonical_bootstrap_servers_only)."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from ottla.model.address import Address


def canonical(addresses: Iterable[Address]) -> tuple[Address, ...]:
    """Return each IP of each host, as the name that a reverse look-up returns; as the IP if it has no name.

    A host without an IP stays as it is: connecting to it raises the error. Waits for the name servers.
    """
    return tuple(dict.fromkeys(name for address in addresses for name in _names(address)))


def _names(address: Address) -> list[Address]:
    try:
        resolved = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        hosts = [socket.getnameinfo(entry[4], socket.NI_NUMERICSERV)[0] for entry in resolved]
    except (OSError, UnicodeError):
        return [address]
    return [Address(host, address.port) for host in hosts]

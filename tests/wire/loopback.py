"""Both ends of a connection in memory: bytes of one are fed to the other, in pieces of any size."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from ottla.wire import client_connection, server_connection
from ottla.wire.client_connection import ClientConnection, ReceivedResponse
from ottla.wire.primitives import Buffer
from ottla.wire.server_connection import ReceivedRequest, ServedApis, ServerConnection
from ottla.wire.version_range import VersionRange
from ottla.wire.versions import PeerVersions, VersionsOrigin

# What one of our brokers might accept: enough APIs for the tests, flexible and older versions.
SERVED = ServedApis(
    {
        0: VersionRange(3, 9),
        1: VersionRange(0, 12),
        3: VersionRange(0, 9),
        9: VersionRange(0, 7),
        10: VersionRange(0, 3),
        12: VersionRange(0, 4),
        16: VersionRange(0, 3),
        18: VersionRange(0, 3),
    }
)
VERSIONS = PeerVersions(SERVED.ranges, VersionsOrigin.ADVERTISED)

ClientEvent = ReceivedResponse | client_connection.Disconnected
ServerEvent = ReceivedRequest | server_connection.LongCall | server_connection.ClientDisconnected


def joined(parts: Iterable[Buffer]) -> bytes:
    return b"".join(bytes(part) for part in parts)


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """`data`, cut at the given places (modulo its length)."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def feed(end: ClientConnection | ServerConnection, data: bytes) -> None:
    """What a driver does with bytes from a socket."""
    while data:
        room = end.get_buffer()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        end.received(count)
        data = data[count:]


def client_events(client: ClientConnection, data: bytes = b"") -> Iterator[ClientEvent]:
    feed(client, data)
    while (event := client.next_event()) is not None:
        yield event


def server_events(server: ServerConnection, data: bytes = b"") -> Iterator[ServerEvent]:
    feed(server, data)
    while (event := server.next_event()) is not None:
        yield event


def calls(server: ServerConnection, data: bytes = b"") -> list[ReceivedRequest]:
    """The calls in `data`; nothing else may happen."""
    events = list(server_events(server, data))
    assert all(isinstance(event, ReceivedRequest) for event in events)
    return [event for event in events if isinstance(event, ReceivedRequest)]


def answers(client: ClientConnection, data: bytes = b"") -> list[ReceivedResponse]:
    """The answers in `data`; nothing else may happen."""
    events = list(client_events(client, data))
    assert all(isinstance(event, ReceivedResponse) for event in events)
    return [event for event in events if isinstance(event, ReceivedResponse)]

"""Both state machines talk to each other in memory, over every split of the bytes that Hypothesis finds."""

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.errors import RemoteProtocolError
from ottla.wire import client_connection, server_connection
from ottla.wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.fetch import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse
from ottla.wire.api.find_coordinator import FindCoordinatorResponse
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.list_groups import ListGroupsResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.api.offset_fetch import OffsetFetchResponse
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from ottla.wire.client_connection import ClientConnection, ReceivedResponse
from ottla.wire.negotiation import Discovery, ProbeLink, Question
from ottla.wire.schema import Request, Response
from ottla.wire.server_connection import ReceivedRequest, ServedApis, ServerConnection
from ottla.wire.version_range import VersionRange
from ottla.wire.versions import GENERATIONS, PeerVersions
from tests.wire.loopback import (
    SERVED,
    VERSIONS,
    answers,
    calls,
    client_events,
    feed,
    joined,
    pieces,
    server_events,
)


def fetched(size: int) -> FetchResponse:
    rows = [FetchPartitionResponse(partition_index=size, records=bytes([size % 251]) * size)]
    return FetchResponse(responses=[FetchTopicResponse(topic="t", partitions=rows)])


def produced(acks: int, size: int) -> ProduceRequest:
    rows = [ProducePartition(index=size, records=bytes([size % 251]) * size)]
    return ProduceRequest(acks=acks, topic_data=[ProduceTopic(name="t", partition_data=rows)])


Turn = tuple[Request[Any], Response]
turns = st.one_of(
    st.builds(
        lambda n: (HeartbeatRequest(generation_id=n), HeartbeatResponse(error_code=n)), st.integers(0, 99)
    ),
    st.builds(lambda n: (FetchRequest(max_wait_ms=n), fetched(n)), st.integers(0, 6000)),
    st.builds(
        lambda acks, n: (produced(acks, n), ProduceResponse()),
        st.sampled_from([-1, 0, 0, 1]),
        st.integers(0, 6000),
    ),
    st.just((MetadataRequest(topics=None), MetadataResponse(controller_id=3))),
)
cuts = st.lists(st.integers(0, 2**17), max_size=10)


@given(st.lists(turns, max_size=8), st.data())
def test_any_split_and_any_order_of_completion_give_the_same_conversation(
    talk: list[Turn], data: st.DataObject
) -> None:
    client = ClientConnection(client_id="c", versions=VERSIONS)
    server = ServerConnection(served=SERVED)
    sent = [client.send(request) for request, _ in talk]

    heard: list[ReceivedRequest] = []
    for piece in pieces(b"".join(joined(one.parts) for one in sent), data.draw(cuts)):
        heard += calls(server, piece)
    assert [call.message for call in heard] == [request for request, _ in talk]
    assert [call.correlation_id for call in heard] == [one.exchange.correlation_id for one in sent]

    bytes_back = b""
    for index in data.draw(st.permutations(range(len(talk)))):
        server.respond(heard[index], talk[index][1])
        bytes_back += joined(server.take_output())
    assert server.in_flight_count == 0

    got: list[ReceivedResponse] = []
    for piece in pieces(bytes_back, data.draw(cuts)):
        got += answers(client, piece)
    due = [
        (one.exchange.correlation_id, turn[1])
        for one, turn in zip(sent, talk, strict=True)
        if one.expects_response
    ]
    assert [(answer.correlation_id, answer.message) for answer in got] == due
    assert client.unanswered == ()


@given(st.binary(max_size=300), cuts)
def test_hostile_bytes_give_the_same_end_in_any_split_and_only_protocol_errors(
    noise: bytes, at: list[int]
) -> None:
    prefix = joined(ClientConnection(client_id="c", versions=VERSIONS).send(HeartbeatRequest()).parts)

    def outcome(parts: list[bytes]) -> tuple[list[object], str]:
        server = ServerConnection(served=SERVED)
        seen: list[object] = []
        try:
            for part in parts:
                seen += server_events(server, part)
            server.eof()
            seen += server_events(server)
        except RemoteProtocolError as error:
            return seen, str(error)
        return seen, ""

    data = prefix + noise
    assert outcome([data]) == outcome(pieces(data, at))


@given(st.binary(max_size=300), cuts)
def test_hostile_answers_raise_only_protocol_errors(noise: bytes, at: list[int]) -> None:
    def outcome(parts: list[bytes]) -> str:
        client = ClientConnection(client_id="c", versions=VERSIONS)
        for request in (FetchRequest(), MetadataRequest(), HeartbeatRequest()):
            client.send(request)
        try:
            for part in parts:
                list(client_events(client, part))
            client.eof()
            list(client_events(client))
        except RemoteProtocolError as error:
            return str(error)
        return ""

    framed = struct.pack(">ii", len(noise) + 4, 0) + noise
    for data in (noise, framed):
        assert outcome([data]) == outcome(pieces(data, at))


# --- version discovery over the wire ------------------------------------------------------------------------

# A broker is what it does with a connection's bytes: its answer, or the word for why there is none.
Broker = Callable[[bytes], bytes | str]

PROBE_ANSWERS: dict[int, Response] = {
    3: MetadataResponse(),
    9: OffsetFetchResponse(),
    10: FindCoordinatorResponse(error_code=15),
    16: ListGroupsResponse(),
}


def modern(served: ServedApis, advertised: dict[int, VersionRange] | None = None) -> Broker:
    """A broker since 0.10; one connection for as long as it answers."""
    server = ServerConnection(served=served)
    listed = advertised or dict(served.ranges)

    def broker(data: bytes) -> bytes | str:
        for call in calls(server, data):
            rows = [
                ApiVersion(api_key=key, min_version=one.oldest, max_version=one.newest)
                for key, one in listed.items()
            ]
            server.respond(call, ApiVersionsResponse(api_keys=rows))
        return joined(server.take_output())

    return broker


def before_kip_511(data: bytes) -> bytes | str:
    """0.10 to 2.3: a newer version is refused with error 35 and no list at all."""
    key, version, correlation_id = struct.unpack_from(">hhi", data, 4)
    assert key == 18
    error = 0 if version == 0 else 35
    rows = struct.pack(">ihhh", 1, 1, 0, 3) if version == 0 else struct.pack(">i", 0)
    body = struct.pack(">ih", correlation_id, error) + rows
    return struct.pack(">i", len(body)) + body


def ancient(generation: str, otherwise: str) -> Broker:
    """A broker without ApiVersions: what it does not know, it closes on or never answers."""
    keys = set(GENERATIONS[generation])

    def broker(data: bytes) -> bytes | str:
        key = struct.unpack_from(">h", data, 4)[0]
        if key not in keys:
            return otherwise
        server = ServerConnection(served=ServedApis(GENERATIONS[generation]))
        for call in calls(server, data):
            server.respond(call, PROBE_ANSWERS[call.api.key])
        return joined(server.take_output())

    return broker


def discover(broker: Broker) -> tuple[PeerVersions, int, ClientConnection]:
    """A driver in 15 lines: its versions, the number of connections, and the last of these."""
    discovery = Discovery(software_version="1.2")
    connections: list[ClientConnection] = []
    plan = discovery.start()
    while isinstance(plan, Question):
        if plan.link is ProbeLink.NEW:
            connections.append(ClientConnection(client_id="c"))
        connection = connections[-1]
        back = broker(joined(connection.send(plan.request, version=plan.version).parts))
        if isinstance(back, bytes):
            (answer,) = answers(connection, back)
            plan = discovery.answered(answer.message)
        elif back == "closed":
            connection.eof()
            assert isinstance(connection.next_event(), client_connection.Disconnected)
            plan = discovery.closed()
        else:
            connection.close()
            plan = discovery.silent()
    connections[-1].adopt(plan.versions)
    return plan.versions, len(connections), connections[-1]


def test_a_broker_with_an_older_api_versions_is_asked_again_on_the_same_connection() -> None:
    versions, connection_count, connection = discover(modern(SERVED))
    assert connection_count == 1
    assert versions.ranges == SERVED.ranges
    assert connection.send(HeartbeatRequest()).exchange.correlation_id == 2


def test_a_broker_with_the_newest_api_versions_is_asked_once() -> None:
    newest = ApiVersionsRequest.API.version_newest
    versions, connection_count, connection = discover(modern(ServedApis({18: VersionRange(0, newest)})))
    assert (connection_count, set(versions.ranges)) == (1, {18})
    assert connection.send(ApiVersionsRequest()).exchange.correlation_id == 1


def test_a_broker_before_kip_511_is_asked_again_in_version_0() -> None:
    versions, connection_count, _ = discover(before_kip_511)
    assert (connection_count, versions.ranges) == (1, {1: VersionRange(0, 3)})


def test_kafka_4_gets_no_produce_below_3() -> None:
    served = ServedApis({0: VersionRange(3, 13), 1: VersionRange(4, 18), 18: VersionRange(0, 4)})
    versions, _, _ = discover(
        modern(served, {**served.ranges, 0: VersionRange(0, 13), 9999: VersionRange(0, 1)})
    )
    assert versions.ranges[0] == VersionRange(3, 13)


@pytest.mark.parametrize(
    ("generation", "otherwise", "connections"),
    [("0.9", "silent", 4), ("0.8.2", "closed", 6), ("0.8.1", "closed", 7), ("0.8.0", "closed", 8)],
)
def test_brokers_without_api_versions_are_found_by_probes(
    generation: str, otherwise: str, connections: int
) -> None:
    versions, connection_count, connection = discover(ancient(generation, otherwise))
    assert (versions.generation, connection_count) == (generation, connections)
    assert connection.send(MetadataRequest()).exchange.version == 0


# --- limits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent_bytes", [0, 1000])
def test_a_thousand_idle_or_stalled_connections_cost_little(sent_bytes: int) -> None:
    stalled = struct.pack(">i", 100_000_000) + bytes(sent_bytes) if sent_bytes else b""
    tracemalloc.start()
    held = [ServerConnection(served=SERVED) for _ in range(1000)]
    for one in held:
        assert list(server_events(one, stalled)) == []
        one.get_buffer()
    total_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert total_bytes < 1000 * 8 * 1024


def test_a_half_received_call_is_no_event() -> None:
    server = ServerConnection(served=SERVED)
    feed(
        server, joined(ClientConnection(client_id="c", versions=VERSIONS).send(produced(1, 5000)).parts)[:-1]
    )
    assert server.next_event() is None
    assert not isinstance(server.next_event(), server_connection.ClientDisconnected)

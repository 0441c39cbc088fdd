"""The broker's side alone: order, limits, what is not served, ends and faults."""

import struct
import weakref
from itertools import product
from typing import Any

import pytest

from ottla.model.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.fetch import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse, MetadataTopic
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from ottla.wire.client_connection import ClientConnection
from ottla.wire.schema import Request
from ottla.wire.server_connection import (
    TRANSITIONS,
    ClientDisconnected,
    LongCall,
    ReceivedRequest,
    ServedApis,
    ServerConnection,
    ServerInput,
    ServerState,
    encoded_answer,
)
from ottla.wire.transitions import advance
from ottla.wire.version_range import VersionRange
from tests.wire.loopback import SERVED, VERSIONS, calls, feed, joined, server_events

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def requests(*messages: Request[Any]) -> bytes:
    """The bytes of a client that sends these in their best versions."""
    client = ClientConnection(client_id="c", versions=VERSIONS)
    return b"".join(joined(client.send(message).parts) for message in messages)


def raw(key: int, version: int, correlation_id: int, rest: bytes = b"\xff\xff") -> bytes:
    body = struct.pack(">hhi", key, version, correlation_id) + rest
    return struct.pack(">i", len(body)) + body


def opened(in_flight_max: int = 100) -> ServerConnection:
    return ServerConnection(served=SERVED, in_flight_max=in_flight_max)


def correlation_ids(data: bytes) -> list[int]:
    """The correlation ids of the frames in `data`."""
    ids = []
    while data:
        size, correlation_id = struct.unpack_from(">ii", data)
        ids.append(correlation_id)
        data = data[4 + size :]
    return ids


def test_a_call_carries_header_and_message() -> None:
    (call,) = calls(opened(), requests(HEARTBEAT))
    assert call[:-1] == (0, HeartbeatRequest.API, 4, 0, "c", HEARTBEAT, True)


def test_a_request_with_thousands_of_elements_is_decoded_by_the_driver() -> None:
    """It has its place among the calls, and the next one is handed out."""
    server = opened()
    wanted = MetadataRequest(topics=[MetadataTopic(name=str(number)) for number in range(5000)])
    long, short = server_events(server, requests(wanted, HEARTBEAT))
    assert isinstance(long, LongCall)
    assert isinstance(short, ReceivedRequest)
    server.respond(short, HeartbeatResponse())
    assert not server.take_output()
    call = server.call_of(long.frame, long.sequence)
    assert call.message == wanted
    server.finish(call.sequence, encoded_answer(call, MetadataResponse()))
    assert correlation_ids(joined(server.take_output())) == [0, 1]


def test_answers_leave_in_the_order_of_the_calls() -> None:
    server = opened()
    first, second, third = calls(server, requests(FetchRequest(), HEARTBEAT, HEARTBEAT))
    server.respond(third, HeartbeatResponse())
    server.respond(second, HeartbeatResponse())
    assert server.take_output() == []
    assert server.in_flight_count == 3
    server.respond(first, FetchResponse())  # the long poll ends
    assert correlation_ids(joined(server.take_output())) == [0, 1, 2]
    assert (server.take_output(), server.in_flight_count) == ([], 0)


def test_a_call_without_an_answer_keeps_the_order_and_emits_nothing() -> None:
    server = opened()
    poll, one_way, last = calls(server, requests(FetchRequest(), ProduceRequest(acks=0), HEARTBEAT))
    assert not one_way.expects_response
    server.respond(last, HeartbeatResponse())
    server.respond(poll, FetchResponse())
    assert correlation_ids(joined(server.take_output())) == [0]
    server.respond(one_way, ProduceResponse())
    assert correlation_ids(joined(server.take_output())) == [2]


def test_equal_correlation_ids_of_a_careless_client_do_no_harm() -> None:
    server = opened()
    first, second = calls(server, requests(HEARTBEAT) + requests(HEARTBEAT))
    server.respond(second, HeartbeatResponse(error_code=2))
    server.respond(first, HeartbeatResponse(error_code=1))
    data = joined(server.take_output())
    half = len(data) // 2
    assert correlation_ids(data) == [0, 0]
    assert (data[half - 2], data[-2]) == (1, 2)


def test_a_record_set_is_neither_joined_nor_copied() -> None:
    server = opened()
    (call,) = calls(server, requests(FetchRequest()))
    records = memoryview(bytes(1_000_000))
    rows = [FetchPartitionResponse(records=records)]
    server.respond(call, FetchResponse(responses=[FetchTopicResponse(topic="t", partitions=rows)]))
    assert any(part is records for part in server.take_output())


def test_produced_records_are_writable_views() -> None:
    topic = ProduceTopic(name="t", partition_data=[ProducePartition(records=b"abc")])
    (call,) = calls(opened(), requests(ProduceRequest(acks=1, topic_data=[topic])))
    assert isinstance(call.message, ProduceRequest)
    records = call.message.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert not records.readonly
    assert records == b"abc"


def test_api_versions_in_a_newer_version_is_answered_in_version_0() -> None:
    server = opened()
    newer = raw(18, 9, 7, b"\0\x01c\0\x06ottla\x021\0")
    (later,) = calls(server, newer + requests(HEARTBEAT))
    body = joined(server.take_output())
    assert body == b"\0\0\0\x10" + b"\0\0\0\x07" + b"\0\x23" + b"\0\0\0\x01" + b"\0\x12\0\0\0\x03"
    assert later.sequence == 1


def test_the_refusal_waits_for_its_turn() -> None:
    server = opened()
    (first,) = calls(server, requests(HEARTBEAT) + raw(18, 9, 7))
    assert server.take_output() == []
    server.respond(first, HeartbeatResponse())
    assert correlation_ids(joined(server.take_output())) == [0, 7]


@pytest.mark.parametrize(
    ("key", "version", "text"),
    [
        (1, 13, r"'c' called Fetch with key 1 in version 13; versions 0 to 12 are served"),
        (0, 2, r"Produce with key 0 in version 2; versions 3 to 9 are served"),
        (12, -1, "Heartbeat with key 12 in version -1"),
        (77, 0, "called an API with key 77 in version 0; the key is not served"),
        (11, 0, "called an API with key 11 in version 0; the key is not served"),
        (-3, 0, "key -3"),
    ],
)
def test_anything_else_that_is_not_served_ends_the_connection(key: int, version: int, text: str) -> None:
    server = opened()
    feed(server, raw(key, version, 7, b"\0\x01c"))
    with pytest.raises(RemoteProtocolError, match=text):
        server.next_event()
    assert server.state is ServerState.CLOSED
    assert server.next_event() is None


def test_without_api_versions_among_the_served_it_is_like_any_other() -> None:
    server = ServerConnection(served=ServedApis({12: VersionRange(0, 4)}))
    feed(server, raw(18, 0, 7))
    with pytest.raises(RemoteProtocolError, match="key 18 in version 0; the key is not served"):
        server.next_event()


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\0",
        b"\0\0\0\x04\0\x0c\0\0",
        raw(12, 0, 1, b"\0\x09ab"),
        raw(12, 0, 1, b"\xff\xff\0\x01g"),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01",
    ],
)
def test_malformed_requests_are_the_peers_fault(data: bytes) -> None:
    server = opened()
    (good,) = calls(server, requests(HEARTBEAT))
    feed(server, data)
    with pytest.raises(RemoteProtocolError):
        server.next_event()
    assert server.state is ServerState.CLOSED
    server.respond(good, HeartbeatResponse())  # the handler cannot know; dropped
    assert server.take_output() == []


def test_the_number_in_flight_is_bounded_and_reading_goes_on_after_an_answer() -> None:
    server = opened(in_flight_max=2)
    first, second = calls(server, requests(*[HEARTBEAT] * 4))
    assert server.is_full
    assert server.next_event() is None
    server.respond(second, HeartbeatResponse())
    assert server.is_full  # it waits behind the first, so it still holds memory
    server.respond(first, HeartbeatResponse())
    assert not server.is_full
    assert [call.sequence for call in calls(server)] == [2, 3]


def test_a_second_answer_and_a_foreign_one_are_refused() -> None:
    server = opened()
    first, second = calls(server, requests(HEARTBEAT, HEARTBEAT))
    server.respond(second, HeartbeatResponse())
    with pytest.raises(LocalProtocolError, match="Heartbeat v4 #1 was answered before"):
        server.respond(second, HeartbeatResponse())
    with pytest.raises(LocalProtocolError, match="ProduceResponse is no answer to Heartbeat"):
        server.respond(first, ProduceResponse())
    server.respond(first, HeartbeatResponse())
    with pytest.raises(LocalProtocolError, match="#0 was answered before"):
        server.respond(first, HeartbeatResponse())
    (foreign,) = calls(opened(), requests(HEARTBEAT))
    with pytest.raises(LocalProtocolError, match="or elsewhere"):
        opened().respond(foreign, HeartbeatResponse())


def test_an_answer_that_the_version_cannot_carry_leaves_the_call_open() -> None:
    server = opened()
    (call,) = calls(server, requests(HEARTBEAT))
    with pytest.raises(LocalProtocolError):
        server.respond(call, HeartbeatResponse(error_code=70_000))
    server.respond(call, HeartbeatResponse())
    assert correlation_ids(joined(server.take_output())) == [0]


def test_what_was_sent_before_the_close_is_still_handed_out() -> None:
    server = opened(in_flight_max=1)
    feed(server, requests(*[ProduceRequest(acks=0)] * 3))
    server.eof()
    seen = []
    for event in server_events(server):
        seen.append(type(event))
        if isinstance(event, ReceivedRequest):
            server.respond(event, ProduceResponse())
    assert seen == [ReceivedRequest, ReceivedRequest, ReceivedRequest, ClientDisconnected]
    assert server.state is ServerState.CLOSED


def test_a_close_inside_a_request_is_a_fault() -> None:
    server = opened()
    feed(server, requests(HEARTBEAT)[:-1])
    server.eof()
    with pytest.raises(RemoteProtocolError, match=r"inside a frame: \d+ of \d+ bytes"):
        server.next_event()


def test_answers_that_can_no_longer_leave_are_let_go() -> None:
    server = opened()
    _, second = calls(server, requests(FetchRequest(), FetchRequest()))
    records = memoryview(bytes(1000))
    gone = weakref.ref(records)
    rows = [FetchPartitionResponse(records=records)]
    server.respond(second, FetchResponse(responses=[FetchTopicResponse(topic="t", partitions=rows)]))
    del records, rows
    assert gone() is not None
    server.close()
    assert gone() is None


def in_state(state: ServerState) -> tuple[ServerConnection, ReceivedRequest]:
    """A connection in this state, with one call that waits for its answer."""
    server = opened()
    (call,) = calls(server, requests(HEARTBEAT))
    if state is not ServerState.OPEN:
        feed(server, requests(HEARTBEAT))
        server.eof()
    if state is ServerState.CLOSED:
        assert len(list(server_events(server))) == 2
    return server, call


def act(server: ServerConnection, call: ReceivedRequest, what: ServerInput) -> None:
    match what:
        case ServerInput.CALL:
            assert isinstance(next(server_events(server, requests(HEARTBEAT))), ReceivedRequest)
        case ServerInput.RESPOND:
            server.respond(call, HeartbeatResponse())
        case ServerInput.EOF:
            server.eof()
        case ServerInput.DRAINED:
            assert list(server_events(server))[-1] == ClientDisconnected()
        case ServerInput.FAULT:
            calls_or_nothing = requests(HEARTBEAT) + struct.pack(">i", -1)
            with pytest.raises(RemoteProtocolError):
                list(server_events(server, calls_or_nothing))
        case ServerInput.CLOSE:
            server.close()


@pytest.mark.parametrize(
    ("state", "what"), [pair for pair in product(ServerState, ServerInput) if pair[1] in TRANSITIONS[pair[0]]]
)
def test_every_row_of_the_table_happens(state: ServerState, what: ServerInput) -> None:
    server, call = in_state(state)
    assert server.state is state
    act(server, call, what)
    assert server.state is TRANSITIONS[state][what]


@pytest.mark.parametrize(
    ("state", "what"),
    [pair for pair in product(ServerState, ServerInput) if pair[1] not in TRANSITIONS[pair[0]]],
)
def test_what_is_not_in_the_table_is_refused(state: ServerState, what: ServerInput) -> None:
    """No driver can bring these about (a call after the end, say), so the table is asked itself."""
    with pytest.raises(
        LocalProtocolError, match=rf"ServerState '{state.value}': '{what.value}' is not possible"
    ):
        advance(TRANSITIONS, state, what)


def test_an_unanswered_api_versions_in_a_served_version_is_the_handlers_business() -> None:
    server = opened()
    (call,) = calls(
        server, requests(ApiVersionsRequest(client_software_name="x", client_software_version="1"))
    )
    server.respond(call, ApiVersionsResponse())
    # Header v0 although the version is flexible: the correlation id is followed by the error code at once.
    assert joined(server.take_output())[4:10] == b"\0\0\0\0\0\0"


# Sent by confluent-kafka 2.16.1 for "all topics": librdkafka leaves a 4-byte count where a 1-byte compact
# null belongs, so 3 bytes are left over. Apache Kafka ignores what follows a request.
ALL_TOPICS_OF_LIBRDKAFKA = bytes.fromhex(
    "00000019 0003 000c 00000003 0007 72646b61666b61 00 00 00 00 00 01 00 00"
)


def test_bytes_behind_a_request_are_ignored_as_kafka_does() -> None:
    served = ServedApis({3: VersionRange(0, 12)})
    (call,) = calls(ServerConnection(served=served), ALL_TOPICS_OF_LIBRDKAFKA)
    assert isinstance(call.message, MetadataRequest)
    assert call.message.topics is None

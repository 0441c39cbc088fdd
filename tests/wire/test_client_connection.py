"""The client's side alone: order, limits, versions, ends and faults."""

import struct
from itertools import product
from typing import Any

import pytest

from ottla.model.error_codes import Code
from ottla.model.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.fetch import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.client_connection import (
    TRANSITIONS,
    ClientConnection,
    ClientInput,
    ClientState,
    Disconnected,
    ReceivedResponse,
)
from ottla.wire.exchange import CORRELATION_ID_MAX, Exchange, expects_response, following
from ottla.wire.frames import SIZE_ROOM, seal
from ottla.wire.headers import encode_response_header
from ottla.wire.schema import Response, encode
from ottla.wire.versions import pinned
from tests.wire.loopback import VERSIONS, answers, client_events, feed, joined

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
FIRE_AND_FORGET = ProduceRequest(acks=0, timeout_ms=1)


def ready(**options: Any) -> ClientConnection:
    return ClientConnection(client_id="c", versions=VERSIONS, **options)


def reply(correlation_id: int, version: int, message: Response) -> bytes:
    header = encode_response_header(message.API, version, correlation_id)
    return joined(seal(encode(message, version, SIZE_ROOM + header)))


def test_a_request_is_one_frame_with_header_and_body() -> None:
    outgoing = ready().send(HEARTBEAT, version=0)
    assert joined(outgoing.parts) == (
        b"\0\0\0\x15" + b"\0\x0c\0\0\0\0\0\0\0\x01c" + b"\0\x01g\0\0\0\x01\0\x01m"
    )
    assert outgoing.exchange == Exchange(HeartbeatRequest.API, 0, 0)
    assert outgoing.expects_response


def test_requests_go_out_in_the_highest_common_version() -> None:
    client = ready()
    assert client.send(HEARTBEAT).exchange.version == 4
    assert client.version_for(FetchRequest.API) == 12
    assert client.version_for(FetchRequest.API, at_most=4) == 4


def test_a_given_version_must_be_one_of_the_peers() -> None:
    client = ready()
    assert client.send(HEARTBEAT, version=2).exchange.version == 2
    with pytest.raises(LocalProtocolError, match="Fetch v13: the highest common version is 12"):
        client.send(FetchRequest(), version=13)
    with pytest.raises(LocalProtocolError, match="no JoinGroup"):
        client.send(JoinGroupRequest(), version=0)
    with pytest.raises(LocalProtocolError, match=r"0\.8\.2 .* has no ApiVersions"):
        ClientConnection(client_id="c", versions=pinned("0.8.2")).send(ApiVersionsRequest())


def test_a_refused_request_changes_nothing() -> None:
    client = ready()
    with pytest.raises(LocalProtocolError):
        client.send(HeartbeatRequest(group_instance_id="static"), version=0)
    assert (client.unanswered, client.send(HEARTBEAT).exchange.correlation_id) == ((), 0)


def test_answers_come_in_the_order_of_the_requests() -> None:
    client = ready()
    sent = [client.send(HEARTBEAT).exchange for _ in range(3)]
    assert client.unanswered == tuple(sent)
    data = b"".join(reply(one.correlation_id, 4, HeartbeatResponse(error_code=27)) for one in sent)
    got = answers(client, data)
    message = HeartbeatResponse(error_code=27)
    assert got == [ReceivedResponse(number, HeartbeatRequest.API, 4, message) for number in range(3)]
    assert client.unanswered == ()


def test_a_wrong_correlation_id_names_both_numbers_and_both_apis() -> None:
    client = ready()
    client.send(HEARTBEAT)
    client.send(MetadataRequest())
    feed(client, reply(1, 4, HeartbeatResponse()))
    with pytest.raises(
        RemoteProtocolError, match=r"Heartbeat v4 #0 is due, but correlation id 1 came.*Metadata v9 #1"
    ):
        client.next_event()
    assert client.state is ClientState.CLOSED
    assert [one.correlation_id for one in client.unanswered] == [0, 1]
    assert client.next_event() is None


def test_an_unknown_correlation_id_and_an_unasked_answer_are_faults() -> None:
    client = ready()
    client.send(HEARTBEAT)
    feed(client, reply(77, 4, HeartbeatResponse()))
    with pytest.raises(RemoteProtocolError, match="correlation id 77 came, which no request has"):
        client.next_event()
    idle = ready()
    feed(idle, reply(5, 4, HeartbeatResponse()))
    with pytest.raises(RemoteProtocolError, match="id 5 came, but no request waits for an answer"):
        idle.next_event()


def test_good_answers_before_a_fault_are_not_lost() -> None:
    client = ready()
    client.send(HEARTBEAT)
    feed(client, reply(0, 4, HeartbeatResponse()) + b"HTTP/1.1 400")
    assert isinstance(client.next_event(), ReceivedResponse)
    with pytest.raises(RemoteProtocolError, match="looks like HTTP"):
        client.next_event()


def test_bytes_behind_an_answer_are_ignored() -> None:
    """A newer broker may say more than this version holds, and every other client lets it."""
    client = ready()
    client.send(HEARTBEAT)
    body = reply(0, 4, HeartbeatResponse())[4:] + b"more"
    feed(client, struct.pack(">i", len(body)) + body)
    answer = client.next_event()
    assert isinstance(answer, ReceivedResponse)
    assert answer.message == HeartbeatResponse()


@pytest.mark.parametrize("body", [b"", b"\0\0", b"\0\0\0\0", b"\0\0\0\0\0\0"])
def test_a_malformed_answer_is_a_fault_and_stays_unanswered(body: bytes) -> None:
    client = ready()
    client.send(HEARTBEAT)
    feed(client, struct.pack(">i", len(body)) + body)
    with pytest.raises(RemoteProtocolError):
        client.next_event()
    assert len(client.unanswered) == 1


def test_a_request_without_an_answer_is_not_waited_for() -> None:
    client = ready()
    one_way = client.send(FIRE_AND_FORGET)
    assert not one_way.expects_response
    later = client.send(HEARTBEAT).exchange
    assert later.correlation_id == one_way.exchange.correlation_id + 1
    assert client.unanswered == (later,)
    assert len(answers(client, reply(1, 4, HeartbeatResponse()))) == 1


@pytest.mark.parametrize(("acks", "expected"), [(0, False), (1, True), (-1, True)])
def test_only_produce_without_acks_has_no_answer(acks: int, expected: bool) -> None:
    assert expects_response(ProduceRequest(acks=acks)) is expected
    assert expects_response(HEARTBEAT)


def test_the_number_in_flight_is_bounded() -> None:
    client = ready(in_flight_max=2)
    client.send(HEARTBEAT)
    client.send(HEARTBEAT)
    assert client.is_full
    with pytest.raises(LocalProtocolError, match="Heartbeat: 2 requests are in flight"):
        client.send(HEARTBEAT)
    answers(client, reply(0, 4, HeartbeatResponse()))
    assert not client.is_full
    assert client.send(HEARTBEAT).exchange.correlation_id == 2


def test_correlation_ids_wrap_within_int32() -> None:
    assert following(0) == 1
    assert following(CORRELATION_ID_MAX) == 0


def test_fetched_records_are_views_of_the_received_bytes() -> None:
    client = ready()
    client.send(FetchRequest())
    rows = [FetchPartitionResponse(records=b"x" * 5000)]
    message = FetchResponse(responses=[FetchTopicResponse(topic="t", partitions=rows)])
    data = reply(0, 12, message)
    room = client.get_buffer(len(data))
    room[: len(data)] = data
    client.received(len(data))
    answer = client.next_event()
    assert isinstance(answer, ReceivedResponse)
    assert isinstance(answer.message, FetchResponse)
    records = answer.message.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records == b"x" * 5000
    assert records.obj is room.obj


def test_a_refusal_of_api_versions_is_read_in_version_0() -> None:
    client = ClientConnection(client_id="c")
    client.send(ApiVersionsRequest(), version=4)
    refusal = ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION)
    (answer,) = answers(client, reply(0, 0, refusal))
    assert answer == ReceivedResponse(0, ApiVersionsRequest.API, 0, refusal)


def test_another_apis_answer_that_starts_with_35_is_read_in_its_own_version() -> None:
    client = ready()
    client.send(HEARTBEAT)
    throttled = HeartbeatResponse(throttle_time_ms=Code.UNSUPPORTED_VERSION << 16)
    assert answers(client, reply(0, 4, throttled)) == [
        ReceivedResponse(0, HeartbeatRequest.API, 4, throttled)
    ]


def test_before_versions_are_known_only_questions_in_a_given_version_may_be_sent() -> None:
    client = ClientConnection(client_id=None)
    with pytest.raises(
        LocalProtocolError, match="'versions unknown': 'send in the best version' is not possible"
    ):
        client.send(HEARTBEAT)
    with pytest.raises(LocalProtocolError, match=r"Heartbeat: the peer's versions are not known yet"):
        client.version_for(HeartbeatRequest.API)
    assert client.send(ListGroupsRequest(), version=0).exchange.version == 0
    client.adopt(VERSIONS)
    assert client.send(HEARTBEAT).exchange.version == 4


def test_the_peer_closes_with_requests_in_flight() -> None:
    client = ready()
    client.send(HEARTBEAT)
    lost = client.send(HEARTBEAT).exchange
    feed(client, reply(0, 4, HeartbeatResponse()))
    client.eof()
    events = list(client_events(client))
    assert isinstance(events[0], ReceivedResponse)
    assert events[1:] == [Disconnected((lost,))]
    assert client.state is ClientState.CLOSED
    assert client.next_event() is None


def test_the_peer_closes_inside_an_answer() -> None:
    client = ready()
    client.send(HEARTBEAT)
    feed(client, reply(0, 4, HeartbeatResponse())[:-3])
    client.eof()
    with pytest.raises(RemoteProtocolError, match="inside a frame: 13 of 16 bytes"):
        client.next_event()
    assert len(client.unanswered) == 1


def test_after_our_close_late_answers_are_not_looked_at() -> None:
    client = ready()
    client.send(HEARTBEAT)
    client.close()
    client.close()
    feed(client, reply(0, 4, HeartbeatResponse()))
    assert client.next_event() is None
    assert len(client.unanswered) == 1
    with pytest.raises(
        LocalProtocolError, match=r"'closed': 'send in the best version'.*possible: end of stream, close"
    ):
        client.send(HEARTBEAT)


def broken(client: ClientConnection) -> None:
    feed(client, struct.pack(">i", -1))
    with pytest.raises(RemoteProtocolError):
        client.next_event()


def in_state(state: ClientState) -> ClientConnection:
    """A connection in this state, with one request in flight and half an answer received."""
    client = ClientConnection(client_id="c")
    client.send(HEARTBEAT, version=4)
    if state is not ClientState.NEW:
        client.adopt(VERSIONS)
    if state in (ClientState.ENDING, ClientState.CLOSED):
        client.eof()
    if state is ClientState.CLOSED:
        client.next_event()
    return client


ACTIONS = {
    ClientInput.ASK: lambda client: client.send(HEARTBEAT, version=4),
    ClientInput.SEND: lambda client: client.send(HEARTBEAT),
    ClientInput.ADOPT: lambda client: client.adopt(VERSIONS),
    ClientInput.ANSWER: lambda client: answers_one(client),
    ClientInput.EOF: lambda client: client.eof(),
    ClientInput.DRAINED: lambda client: drained(client),
    ClientInput.FAULT: broken,
    ClientInput.CLOSE: lambda client: client.close(),
}
# These are no acts of a caller: elsewhere than in their rows they simply cannot come about.
NOT_THE_CALLERS = {ClientInput.ANSWER, ClientInput.DRAINED, ClientInput.FAULT}


def answers_one(client: ClientConnection) -> None:
    feed(client, reply(0, 4, HeartbeatResponse()))
    assert isinstance(client.next_event(), ReceivedResponse)


def drained(client: ClientConnection) -> None:
    assert isinstance(client.next_event(), Disconnected)


@pytest.mark.parametrize(
    ("state", "what"), [pair for pair in product(ClientState, ClientInput) if pair[1] in TRANSITIONS[pair[0]]]
)
def test_every_row_of_the_table_happens(state: ClientState, what: ClientInput) -> None:
    client = in_state(state)
    assert client.state is state
    ACTIONS[what](client)
    assert client.state is TRANSITIONS[state][what]


@pytest.mark.parametrize(
    ("state", "what"),
    [
        pair
        for pair in product(ClientState, ClientInput)
        if pair[1] not in NOT_THE_CALLERS and pair[1] not in TRANSITIONS[pair[0]]
    ],
)
def test_what_is_not_in_the_table_is_refused(state: ClientState, what: ClientInput) -> None:
    client = in_state(state)
    with pytest.raises(
        LocalProtocolError, match=rf"ClientState '{state.value}': '{what.value}' is not possible"
    ):
        ACTIONS[what](client)
    assert client.state is state

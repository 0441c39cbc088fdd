"""Bytes that are no requests, requests in strange pieces, and calls that nobody serves."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.handlers.api_versions import UNLISTED
from ottla.broker.handlers.registry import SERVED
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.headers import decode_correlation_id, response_body
from ottla.wire.registry import apis
from ottla.wire.schema import decode
from tests.broker.faults.batches import batch
from tests.broker.faults.raw_client import (
    FETCH,
    METADATA,
    PRODUCE,
    RawClient,
    fetch_request,
    frame,
    framed,
    produce_request,
)

REQUEST_BYTES_MAX = 1 << 20
ALL_TOPICS = MetadataRequest(topics=None)
VERSIONS = ApiVersionsRequest(client_software_name="faults", client_software_version="1")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    properties = {"socket.request.max.bytes": str(REQUEST_BYTES_MAX)}
    with EmbeddedBroker(tmp_path_factory.mktemp("frames"), properties=properties) as broker:
        broker.create_topic("kept")
        with RawClient(broker.port) as client:
            assert client.produce("kept", batch((b"k", b"v"))).error_code == 0
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_else_changes(broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a peer sends: no error of ours is logged, and others go on as before."""
    yield
    assert [one.getMessage() for one in caplog.get_records("call") if one.levelno >= logging.ERROR] == []
    with RawClient(broker.port) as other:
        assert [record.value for record in other.records("kept")] == [b"v"]


def has_metadata(data: bytes, correlation_id: int) -> bool:
    assert decode_correlation_id(data) == correlation_id
    answer = decode(MetadataResponse, METADATA, response_body(MetadataRequest.API, METADATA, data))
    return any(topic.name == "kept" for topic in answer.topics)


@pytest.mark.parametrize("size", [REQUEST_BYTES_MAX + 1, 0x7FFFFFFF, -1, -0x80000000])
def test_a_frame_of_a_size_that_cannot_be_closes_the_connection(client: RawClient, size: int) -> None:
    client.send(struct.pack(">i", size) + b"x" * 100)
    assert client.rest() == b""


def test_the_largest_frame_that_is_allowed_is_served(broker: EmbeddedBroker, client: RawClient) -> None:
    broker.create_topic("large", config={"max.message.bytes": str(REQUEST_BYTES_MAX)})
    room = REQUEST_BYTES_MAX - len(frame(produce_request("large", batch((b"", b""))), PRODUCE)) - 10
    full = frame(produce_request("large", batch((b"", b"x" * room))), PRODUCE)
    assert REQUEST_BYTES_MAX - 16 < len(full) - 4 <= REQUEST_BYTES_MAX
    assert client.produce("large", batch((b"", b"x" * room))).error_code == 0


@pytest.mark.parametrize("greeting", [
    b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    b"POST /topics/orders HTTP/1.1\r\n\r\n",
    bytes.fromhex("16030100c8010000c40303") + bytes(190),  # a TLS client hello
    bytes.fromhex("15030100020228"),  # a TLS alert
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
], ids=["GET", "POST", "TLS", "alert", "SSH", "HTTP2"])  # fmt: skip
def test_another_protocol_is_named_in_the_log_and_gets_no_answer(
    client: RawClient, greeting: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    client.send(greeting)
    assert client.rest() == b""
    assert "does not speak Kafka" in caplog.text


@pytest.mark.parametrize("keep", [1, 3, 4, 5, 12, -1])
def test_a_frame_that_ends_early_is_dropped_with_its_connection(client: RawClient, keep: int) -> None:
    client.send(frame(produce_request("kept", batch((b"k", b"torn"))), PRODUCE)[:keep])
    client.socket.shutdown(1)
    assert client.rest() == b""


def test_one_byte_at_a_time(client: RawClient) -> None:
    for byte in frame(ALL_TOPICS, METADATA, 7):
        client.send(bytes([byte]))
    assert has_metadata(client.receive(), 7)


def test_frames_cut_anywhere_and_sent_together(client: RawClient) -> None:
    stream = b"".join(frame(ALL_TOPICS, METADATA, number) for number in range(50))
    for at in range(0, len(stream), 37):
        client.send(stream[at : at + 37])
    assert all(has_metadata(client.receive(), number) for number in range(50))


def test_answers_keep_the_order_of_pipelined_requests(broker: EmbeddedBroker, client: RawClient) -> None:
    """A long poll in front holds back what is behind it; produces overtake nothing."""
    broker.create_topic("ordered")
    client.send(
        frame(produce_request("ordered", batch((b"k", b"first"))), PRODUCE, 1)
        + frame(fetch_request("ordered", 1, wait_ms=100), FETCH, 2)
        + frame(produce_request("ordered", batch((b"k", b"second"))), PRODUCE, 3)
        + frame(ALL_TOPICS, METADATA, 4)
    )
    assert [decode_correlation_id(client.receive()) for _ in range(4)] == [1, 2, 3, 4]
    with RawClient(broker.port) as other:
        assert [record.value for record in other.records("ordered")] == [b"first", b"second"]


def test_a_request_without_a_body_closes_the_connection(client: RawClient) -> None:
    client.send(framed(b""))
    assert client.rest() == b""


@pytest.mark.parametrize("key", [-1, 4, 5, 99, 0x7FFF])
def test_an_unknown_api_closes_the_connection(client: RawClient, key: int) -> None:
    assert key not in SERVED
    client.send(framed(struct.pack(">hhih", key, 0, 1, -1)))
    assert client.rest() == b""


@pytest.mark.parametrize("key", sorted(SERVED.keys() - {ApiVersionsRequest.API.key}))
@pytest.mark.parametrize("version", [-1, "next", 0x7FFF])
def test_a_version_that_is_not_served_closes_the_connection(
    client: RawClient, key: int, version: int | str
) -> None:
    number = SERVED[key].newest + 1 if version == "next" else int(version)
    client.send(framed(struct.pack(">hhih", key, number, 1, -1) + bytes(64)))
    assert client.rest() == b""


@pytest.mark.parametrize("version", [ApiVersionsRequest.API.version_newest + 1, 99, 0x7FFF, -1])
def test_api_versions_of_the_future_is_answered_in_version_0(client: RawClient, version: int) -> None:
    """KIP-511: error 35 and the range that is served, so that the client can ask again."""
    client.send(framed(struct.pack(">hhih", 18, version, 5, -1) + b"\0" * 16))
    data = client.receive()
    assert decode_correlation_id(data) == 5
    answer = decode(ApiVersionsResponse, 0, response_body(ApiVersionsRequest.API, 0, data))
    assert answer.error_code == 35
    served = {item.api_key: (item.min_version, item.max_version) for item in answer.api_keys}
    newest = SERVED[18].newest
    assert served == {18: (0, newest)}
    assert client.call(VERSIONS, newest).error_code == 0


def test_what_is_advertised_is_what_is_served(client: RawClient) -> None:
    answer = client.call(VERSIONS, 3)
    advertised = {item.api_key for item in answer.api_keys}
    assert advertised <= set(apis())
    assert advertised == SERVED.keys() - UNLISTED


def test_good_frames_before_a_bad_one_are_answered(client: RawClient) -> None:
    client.send(frame(ALL_TOPICS, METADATA, 1) + framed(struct.pack(">hhih", 99, 0, 2, -1)))
    assert has_metadata(client.receive(), 1)
    assert client.rest() == b""


def test_the_data_directory_holds_what_was_acknowledged_and_no_more(broker: EmbeddedBroker) -> None:
    segment = next(Path(broker.data_dir / "kept-0").glob("*.log"))
    assert segment.stat().st_size == len(batch((b"k", b"v")))

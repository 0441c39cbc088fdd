"""Large fetches are sent from their files: what readers get, slow, leaving and pipelining ones too."""

from __future__ import annotations

import os
import socket

import pytest

from ottla import EmbeddedBroker
from ottla.broker.serving.connection import BrokerConnection
from ottla.broker.serving.file_transport import FileTransport
from ottla.log import file_range
from ottla.log.file_range import RANGE_BYTES_MIN, RANGES_MAX
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.traffic import data_of, fetch, fetch_request, fill, place
from tests.broker.wire_client import Client
from tests.log.record_sets import batch, values
from tests.scale import seeded
from tests.waiting import wait_for

FETCH_BYTES = 32 << 20
SETS = 10


@pytest.fixture
def topic(broker: EmbeddedBroker, client: Client, request: pytest.FixtureRequest) -> str:
    """A topic with more in each of two partitions than the kernel buffers for a connection."""
    name = request.node.name.replace("[", "-").replace("]", "")
    broker.create_topic(name, 2)
    random = seeded(name)
    for partition in range(2):
        sets = [batch(*values(number, 5, random.randrange(150_000, 200_000))) for number in range(SETS)]
        fill(client, name, sets, partition)
    return name


def stored(broker: EmbeddedBroker, topic: str, partition: int = 0) -> bytes:
    """The bytes of the partition's only segment."""
    (log,) = (broker.data_dir / f"{topic}-{partition}").glob("*.log")
    return log.read_bytes()


def transports(broker: EmbeddedBroker) -> list[FileTransport]:
    """Those of the connections that send from files."""
    nodes = broker._running().nodes.values()

    def look() -> list[FileTransport]:
        connections = [item for node in nodes for item in node.traffic.connections]
        found = [item.answers.transport for item in connections if isinstance(item, BrokerConnection)]
        return [item for item in found if isinstance(item, FileTransport)]

    return broker._call(look)


def unsent(broker: EmbeddedBroker) -> int:
    """Bytes that wait in transports of files."""
    return sum(transport.get_write_buffer_size() for transport in transports(broker))


def test_a_large_fetch_gets_what_is_stored(broker: EmbeddedBroker, client: Client, topic: str) -> None:
    answer = fetch(client, topic, place(0, FETCH_BYTES), max_bytes=FETCH_BYTES)
    assert data_of(answer) == stored(broker, topic)
    assert transports(broker)


def test_a_part_ends_where_the_reader_wants(broker: EmbeddedBroker, client: Client, topic: str) -> None:
    answer = fetch(client, topic, place(0, RANGE_BYTES_MIN + 7), max_bytes=FETCH_BYTES)
    data = data_of(answer)
    first_bytes = int.from_bytes(data[8:12], "big") + 12
    assert data == stored(broker, topic)[: max(RANGE_BYTES_MIN + 7, first_bytes)]


def test_a_slow_reader_gets_all_answers_in_order(broker: EmbeddedBroker, client: Client, topic: str) -> None:
    both = {(topic, 0): place(0, FETCH_BYTES), (topic, 1): place(0, FETCH_BYTES)}
    request = fetch_request(client, both, 12, max_bytes=FETCH_BYTES)
    for _ in range(3):
        client.send(request, 12)
        client.send(ApiVersionsRequest(), 0)
    wait_for(lambda: unsent(broker) > 0, "the peer has not taken its answer")
    for _ in range(3):
        answer = client.receive()
        partitions = answer.responses[0].partitions  # type: ignore[attr-defined]
        assert [data_of(item) for item in partitions] == [stored(broker, topic, index) for index in range(2)]
        assert isinstance(client.receive(), ApiVersionsResponse)
    assert unsent(broker) == 0


def test_a_reader_that_sends_no_more_gets_its_answer(
    broker: EmbeddedBroker, client: Client, topic: str
) -> None:
    request = fetch_request(client, {(topic, 0): place(0, FETCH_BYTES)}, 12, max_bytes=FETCH_BYTES)
    client.send(request, 12)
    client._socket.shutdown(socket.SHUT_WR)
    answer = client.receive()
    assert data_of(answer.responses[0].partitions[0]) == stored(broker, topic)  # type: ignore[attr-defined]
    assert client._socket.recv(1) == b""  # then the broker hangs up


def test_a_reader_that_leaves_costs_no_descriptor(broker: EmbeddedBroker, topic: str) -> None:
    before = _descriptors()
    for _ in range(5):
        with Client.of(broker.bootstrap) as leaving:
            leaving.send(fetch_request(leaving, {(topic, 0): place(0, FETCH_BYTES)}, 12), 12)
            wait_for(lambda: unsent(broker) > 0, "an answer waits")
        wait_for(lambda: unsent(broker) == 0, "the connection is gone")
    wait_for(lambda: _descriptors() <= before, "no descriptor is left")
    assert len(file_range._free) == RANGES_MAX


def test_a_topic_is_deleted_while_it_is_sent(broker: EmbeddedBroker, client: Client, topic: str) -> None:
    expected = stored(broker, topic)
    request = fetch_request(client, {(topic, 0): place(0, FETCH_BYTES)}, 12, max_bytes=FETCH_BYTES)
    client.send(request, 12)
    wait_for(lambda: unsent(broker) > 0, "the peer has not taken its answer")
    broker.delete_topic(topic)
    answer = client.receive()
    assert data_of(answer.responses[0].partitions[0]) == expected  # type: ignore[attr-defined]


def test_an_idle_connection_has_one_descriptor(broker: EmbeddedBroker, client: Client, topic: str) -> None:
    fetch(client, topic, place(0, FETCH_BYTES), max_bytes=FETCH_BYTES)
    (transport,) = transports(broker)
    wait_for(lambda: transport._socket is None, "the descriptor for sending is given back")


@pytest.mark.parametrize("reason", ["no-descriptor-is-free", "no-socket-is-free", "the-file-system-cannot"])
def test_bytes_are_read_where_files_cannot_be_sent(
    broker: EmbeddedBroker, client: Client, topic: str, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    if reason == "no-descriptor-is-free":
        monkeypatch.setattr(file_range, "_free", [])
    else:
        monkeypatch.setattr(os, "dup" if reason == "no-socket-is-free" else "sendfile", _refused)
    answer = fetch(client, topic, place(0, FETCH_BYTES), max_bytes=FETCH_BYTES)
    assert data_of(answer) == stored(broker, topic)


def _refused(*_arguments: object) -> int:
    raise OSError(22, "Invalid argument")


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))

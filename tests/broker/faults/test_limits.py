"""How many connections, for how long, how much of each: what is over a limit is refused, the rest goes on."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
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
from tests.waiting import wait_for

ALL_TOPICS = MetadataRequest(topics=None)
IDLE_MS = 400


def is_served(client: RawClient) -> bool:
    return client.call(ALL_TOPICS, METADATA).error_code == 0


@pytest.mark.parametrize("limit", ["max.connections", "max.connections.per.ip"])
def test_a_connection_above_the_limit_is_closed_and_the_others_stay(limit: str, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, properties={limit: "3"}) as broker:
        clients = [RawClient(broker.port) for _ in range(3)]
        assert all(map(is_served, clients))
        with RawClient(broker.port) as fourth:
            assert fourth.rest() == b""
        assert all(map(is_served, clients))
        clients.pop().close()

        def is_admitted() -> bool:
            with RawClient(broker.port) as another:
                try:
                    return is_served(another)
                except ConnectionError:
                    return False

        wait_for(is_admitted)  # the broker has noticed that one has left
        for client in clients:
            client.close()


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(tmp_path: Path) -> None:
    """Busy is who sends, too: a producer with acks=0 never gets an answer."""
    with EmbeddedBroker(tmp_path, properties={"connections.max.idle.ms": str(IDLE_MS)}) as broker:
        broker.create_topic("t")
        with RawClient(broker.port) as idle, RawClient(broker.port) as busy, RawClient(broker.port) as mute:
            assert is_served(idle)
            idle.socket.setblocking(False)
            sent = 0
            while not has_ended(idle):
                assert is_served(busy)
                mute.send(frame(produce_request("t", batch((b"k", b"%d" % sent)), acks=0), PRODUCE))
                sent += 1
                time.sleep(IDLE_MS / 1000 / 20)
            mute.send(frame(produce_request("t", batch((b"k", b"last"))), PRODUCE))
            mute.receive()
            assert len(busy.records("t")) == sent + 1


def has_ended(client: RawClient) -> bool:
    try:
        return client.socket.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_who_does_not_read_is_idle_too(tmp_path: Path) -> None:
    """Otherwise answers that nobody takes would be kept for ever."""
    properties = {"connections.max.idle.ms": str(IDLE_MS), "max.connections": "1"}
    with EmbeddedBroker(tmp_path, properties=properties) as broker:
        broker.create_topic("t", config={"max.message.bytes": str(20 << 20)})
        large = batch((b"k", b"x" * (16 << 20)))
        with RawClient(broker.port) as client:
            for _ in range(2):
                assert client.produce("t", large).error_code == 0
        service = broker._running()
        wait_for(lambda: not service.nodes[0].traffic.connections)
        with RawClient(broker.port, receive_buffer=4096) as reader:
            reader.send(frame(fetch_request("t", max_bytes=32 << 20), FETCH))
            wait_for(lambda: bool(service.nodes[0].traffic.connections))
            wait_for(lambda: not service.nodes[0].traffic.connections)
        with RawClient(broker.port) as other:
            assert is_served(other)


def test_requests_above_the_size_limit_are_refused_without_being_read(tmp_path: Path) -> None:
    properties = {"socket.request.max.bytes": "10000"}
    with EmbeddedBroker(tmp_path, properties=properties) as broker:
        broker.create_topic("t")
        with RawClient(broker.port) as client:
            client.send(frame(produce_request("t", batch((b"k", b"x" * 10_000))), PRODUCE)[:100])
            assert client.rest() == b""
        with RawClient(broker.port) as client:
            assert client.produce("t", batch((b"k", b"x" * 9000))).base_offset == 0


def test_who_holds_much_is_not_read_while_too_many_bytes_wait_for_their_answers(tmp_path: Path) -> None:
    """queued.max.request.bytes: of all connections together. Small clients are served meanwhile."""
    limit, count = 300_000, 4
    properties = {"queued.max.request.bytes": str(limit), "socket.request.max.bytes": str(limit)}
    with EmbeddedBroker(tmp_path, properties=properties) as broker, RawClient(broker.port) as late:
        broker.create_topic("t")
        node = broker._running().nodes[0]
        broker.delay("Produce", 0.5, times=count)
        early = [RawClient(broker.port) for _ in range(count)]
        for client in early:
            client.send(frame(produce_request("t", batch((b"k", b"x" * 100_000))), PRODUCE))
        wait_for(lambda: node.traffic.queued_bytes > limit)
        second = frame(produce_request("t", batch((b"k", b"x" * 100_000))), PRODUCE, 2)
        for client in early:
            client.send(second)
        assert is_served(late)
        assert node.traffic.queued_bytes < 2 * limit, "the second requests wait in their sockets"
        for client in early:
            for number in (1, 2):
                assert client.answer(produce_request("t", b""), PRODUCE, number).responses
            client.close()
        assert late.offset("t") == 2 * count
        wait_for(lambda: not node.traffic.queued_bytes)


def counted(count: int, each: bytes) -> bytes:
    return struct.pack(">i", count) + each * count


FETCH_HEAD, PRODUCE_HEAD = struct.pack(">iiiib", -1, 0, 0, 1, 0), struct.pack(">hhi", -1, 1, 0)
SWARMS = {
    "names": (3, 1, counted(1_000_000, b"\0\0")),
    "groups": (15, 0, counted(1_000_000, b"\0\0")),
    "lists in lists": (1, 4, FETCH_HEAD + counted(1000, b"\0\0" + counted(1000, bytes(16)))),
    "no records": (0, 3, PRODUCE_HEAD + counted(1, b"\0\1t" + counted(200_000, b"\0\0\0\0\xff\xff\xff\xff"))),
    "numbers": (9, 2, b"\0\1g" + counted(500, b"\0\1t" + counted(1000, bytes(4)))),
}  # fmt: skip


@pytest.mark.parametrize("name", SWARMS)
def test_a_request_with_a_swarm_of_elements_is_refused_before_they_are_made(
    name: str, tmp_path: Path
) -> None:
    """Each would become an object and some work: 100 MB of them gigabytes and minutes."""
    key, version, body = SWARMS[name]
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("t")
        with RawClient(broker.port) as client:
            client.send(framed(struct.pack(">hhih", key, version, 1, -1) + body))
            assert client.rest() == b""
        with RawClient(broker.port) as client:
            assert client.offset("t") == 0


def test_many_topics_in_one_request_are_served(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker, RawClient(broker.port) as client:
        wanted = [MetadataTopic(name=f"topic-{number}") for number in range(20_000)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        assert len(client.call(request, METADATA).topics) == 20_000

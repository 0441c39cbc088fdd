"""Fetches that wait: what ends the wait, and that nothing is left of one that ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.serving.connection import BrokerConnection
from ottla.broker.storage.partition import Partition
from ottla.model.error_codes import Code
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.fetch import FetchPartitionResponse, FetchResponse
from tests.broker.traffic import (
    answers,
    data_of,
    fetch_request,
    fill,
    one,
    place,
    produce,
    produce_request,
    rows,
)
from tests.broker.wire_client import Client
from tests.waiting import wait_for

LONG_MS = 60_000
"""Longer than a test may take: an answer comes for another reason, or never."""

WAIT_S = 120.0


class Waiter:
    """A connection with a fetch under way."""

    def __init__(self, broker: EmbeddedBroker, client: Client) -> None:
        self._broker, self._client = broker, client

    def ask(self, *where: tuple[str, int], offset: int = 0, version: int = 12, **how: int) -> None:
        """Begin to wait; returns when the broker does."""
        before = self._waiting_count()
        settings = {"max_wait_ms": LONG_MS, "min_bytes": 1, **how}
        request = fetch_request(self._client, {one: place(offset) for one in where}, version, **settings)
        self._client.send(request, version)
        wait_for(lambda: self._waiting_count() != before, "the fetch waits", pause=0.001)

    def answer(self) -> FetchPartitionResponse:
        response = self._client.receive()
        assert isinstance(response, FetchResponse)
        (found,) = answers(response)
        return found

    def _waiting_count(self) -> int:
        return len(parked(self._broker))


def listeners(broker: EmbeddedBroker, topic: str, partition: int = 0) -> int:
    found: Partition = broker._running().cluster.store.partition(topic, partition)
    return broker._call(lambda: len(found.listeners))


def parked(broker: EmbeddedBroker) -> list[object]:
    nodes = broker._running().nodes.values()

    def look() -> list[object]:
        connections = [connection for node in nodes for connection in node.traffic.connections]
        return [one for one in connections if isinstance(one, BrokerConnection) and one.parked]

    return broker._call(look)


@pytest.fixture
def waiter(broker: EmbeddedBroker) -> Iterator[Waiter]:
    with Client.of(broker.bootstrap) as client:
        yield Waiter(broker, client)


def values(answer: FetchPartitionResponse) -> list[bytes | None]:
    return [value for _, _, value in rows(data_of(answer))]


@pytest.mark.parametrize("version", [0, 2, 3, 4, 11, 12, 18])
def test_a_produce_ends_the_wait(
    broker: EmbeddedBroker, client: Client, topic: str, waiter: Waiter, version: int
) -> None:
    waiter.ask((topic, 0), version=version)
    produce(client, topic, one(b"news"))
    assert values(waiter.answer()) == [b"news"]
    assert listeners(broker, topic) == 0


def test_a_produce_of_the_express_lane_ends_the_wait(client: Client, topic: str, waiter: Waiter) -> None:
    fill(client, topic, [one(), one()])  # the second one is of a known shape
    waiter.ask((topic, 0), offset=2)
    fill(client, topic, [one(b"news")])
    assert rows(data_of(waiter.answer()))[-1][0] == 2


def test_only_enough_bytes_end_the_wait(
    broker: EmbeddedBroker, client: Client, topic: str, waiter: Waiter
) -> None:
    size = len(one())
    waiter.ask((topic, 0), min_bytes=3 * size)
    for _ in range(2):
        produce(client, topic, one())
        assert listeners(broker, topic) == 1, "still waiting"
    produce(client, topic, one())
    assert len(values(waiter.answer())) == 3


def test_what_is_there_counts_too(broker: EmbeddedBroker, client: Client, topic: str, waiter: Waiter) -> None:
    produce(client, topic, one(b"a"))
    waiter.ask((topic, 0), min_bytes=2 * len(one()))
    produce(client, topic, one(b"b"))
    assert values(waiter.answer()) == [b"a", b"b"]


def test_bytes_of_all_partitions_count(
    broker: EmbeddedBroker, client: Client, topic: str, waiter: Waiter
) -> None:
    waiter.ask((topic, 0), (topic, 1), min_bytes=2 * len(one()))
    produce(client, topic, one(b"a"), 0)
    assert listeners(broker, topic, 1) == 1
    produce(client, topic, one(b"b"), 1)
    response = waiter._client.receive()
    assert isinstance(response, FetchResponse)
    assert [values(answer) for answer in answers(response)] == [[b"a"], [b"b"]]
    assert listeners(broker, topic, 0) == listeners(broker, topic, 1) == 0


def test_the_deadline_ends_the_wait_with_what_there_is(
    broker: EmbeddedBroker, client: Client, topic: str, waiter: Waiter
) -> None:
    produce(client, topic, one(b"little"))
    waiter.ask((topic, 0), min_bytes=1 << 20, max_wait_ms=300)
    answer = waiter.answer()
    assert (answer.error_code, values(answer)) == (Code.NONE, [b"little"])
    assert listeners(broker, topic) == 0


def test_enough_bytes_are_answered_at_once(client: Client, topic: str) -> None:
    produce(client, topic, one())
    request = fetch_request(client, {(topic, 0): 0}, 12, max_wait_ms=LONG_MS)
    assert len(values(answers(client.call(request, 12))[0])) == 1


@pytest.mark.parametrize("how", ["an error", "no partitions", "no bytes wanted"])
def test_answers_that_need_not_wait(client: Client, topic: str, how: str) -> None:
    where = {"no partitions": {}, "an error": {(topic, 0): 0, (topic, 9): 0}}.get(how, {(topic, 0): 0})
    request = fetch_request(client, where, 12, max_wait_ms=LONG_MS, min_bytes=0 if "bytes" in how else 1)
    assert len(answers(client.call(request, 12))) == len(where)


def test_the_next_call_waits_behind_a_long_poll(client: Client, topic: str, waiter: Waiter) -> None:
    waiter.ask((topic, 0))
    waiter._client.send(ApiVersionsRequest(), 0)
    produce(client, topic, one(b"news"))
    assert values(waiter.answer()) == [b"news"]
    assert isinstance(waiter._client.receive(), ApiVersionsResponse)


def test_one_produce_ends_many_waits(broker: EmbeddedBroker, client: Client, topic: str) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(Client.of(broker.bootstrap)) for _ in range(20)]
        waiters = [Waiter(broker, one) for one in clients]
        for waiter in waiters:
            waiter.ask((topic, 0))
        assert listeners(broker, topic) == 20
        produce(client, topic, one(b"news"))
        assert [values(waiter.answer()) for waiter in waiters] == 20 * [[b"news"]]
    assert listeners(broker, topic) == 0


@pytest.mark.parametrize(
    ("version", "code"), [(12, Code.UNKNOWN_TOPIC_OR_PARTITION), (13, Code.UNKNOWN_TOPIC_ID)]
)
def test_the_deletion_of_the_topic_ends_the_wait(
    broker: EmbeddedBroker, topic: str, waiter: Waiter, version: int, code: Code
) -> None:
    waiter.ask((topic, 0), version=version)
    broker.delete_topic(topic)
    assert waiter.answer().error_code == code


def test_a_new_leader_ends_the_wait() -> None:
    with EmbeddedBroker(brokers=2) as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("t")
        waiter = Waiter(broker, client)
        waiter.ask(("t", 0))
        broker.move_leader("t", 0, 1)
        answer = waiter.answer()
        assert answer.error_code == Code.NOT_LEADER_OR_FOLLOWER
        assert answer.current_leader.leader_id == 1
        assert listeners(broker, "t") == 0


@pytest.mark.parametrize("count", [1, 2])
def test_a_client_that_leaves_leaves_nothing_behind(broker: EmbeddedBroker, topic: str, count: int) -> None:
    with Client.of(broker.bootstrap) as leaving:
        waiter = Waiter(broker, leaving)
        waiter.ask(*[(topic, index) for index in range(count)])
        assert listeners(broker, topic) == 1
    wait_for(lambda: not listeners(broker, topic), "nobody waits for a client that is gone")
    assert parked(broker) == []


def test_the_stop_of_the_broker_ends_the_wait() -> None:
    broker = EmbeddedBroker().start()
    try:
        broker.create_topic("t")
        with Client.of(broker.bootstrap) as client:
            waiter = Waiter(broker, client)
            waiter.ask(("t", 0))
            broker.stop()
            assert waiter.answer().error_code == Code.NOT_LEADER_OR_FOLLOWER
            with pytest.raises(ConnectionResetError):
                client.receive()
    finally:
        broker.close()


def test_a_wait_for_a_partition_that_moved_here_sees_its_records() -> None:
    """Parked at the new leader right after the move: what the old one wrote is the same log."""
    with EmbeddedBroker(brokers=2) as broker, ExitStack() as stack:
        clients = [stack.enter_context(Client.of(address)) for address in broker.bootstrap.split(",")]
        broker.create_topic("t")
        produce(clients[0], "t", one(b"old"))
        broker.move_leader("t", 0, 1)
        waiter = Waiter(broker, clients[1])
        waiter.ask(("t", 0), offset=1)
        with stack.enter_context(Client.of(broker.bootstrap.split(",")[1])) as other:
            other.call(produce_request(other, {("t", 0): one(b"new")}, 12), 12)
        assert values(waiter.answer()) == [b"new"]


def test_an_error_of_ours_in_a_thread_is_answered(
    client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was empty and without an error: a reader would have asked again for ever."""
    produce(client, topic, one())

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("an error of ours")

    monkeypatch.setattr("ottla.broker.serving.long_poll.readable", fail)
    (answer,) = answers(client.call(fetch_request(client, {(topic, 0): 0}, 2), 2))
    assert answer.error_code == Code.UNKNOWN_SERVER_ERROR

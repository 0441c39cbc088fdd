"""One connection to the embedded broker: calls, pipelines, versions, timeouts, ends."""

from __future__ import annotations

import gc
import os
import select
import threading

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.model.address import Address
from ottla.model.errors import (
    BrokerUnreachable,
    ConnectionLost,
    LocalProtocolError,
    RequestTimedOut,
)
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.versions import VersionsOrigin
from tests.client.conftest import Clients
from tests.waiting import wait_for


def asking(topic: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataTopic(name=topic)], allow_auto_topic_creation=False)


def polling(topic: str, wait_ms: int) -> FetchRequest:
    """A fetch that waits, since there is nothing to read."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )


def test_a_call_is_answered(broker: EmbeddedBroker, clients: Clients, topic: str) -> None:
    broker.create_topic(topic)
    connection = clients.connection(broker.bootstrap)
    answer = connection.call(asking(topic))
    assert answer.topics[0].name == topic
    assert connection.is_open
    assert connection.versions.origin is VersionsOrigin.ADVERTISED
    assert connection.address == Address("127.0.0.1", broker.port)
    assert connection.in_flight_count == 0


def test_pipelined_answers_come_in_the_order_of_the_requests(
    broker: EmbeddedBroker, clients: Clients
) -> None:
    connection = clients.connection(broker.bootstrap)
    names = [f"nobody-has-{number}" for number in range(40)]
    sent = [connection.send(asking(name)) for name in names]
    assert connection.in_flight_count == 40
    answers = [connection.receive() for _ in names]
    assert [answer.correlation_id for answer in answers] == [one.correlation_id for one in sent]
    assert [answer.message.topics[0].name for answer in answers] == names  # type: ignore[attr-defined]
    assert connection.in_flight_count == 0


def test_versions_can_be_bounded_and_named(broker: EmbeddedBroker, clients: Clients) -> None:
    connection = clients.connection(broker.bootstrap)
    best = connection.version_for(MetadataRequest.API)
    assert connection.send(MetadataRequest(topics=[])).version == best
    assert connection.send(MetadataRequest(topics=[]), at_most=5).version == 5
    assert connection.send(MetadataRequest(topics=[]), version=1).version == 1
    assert [connection.receive().version for _ in range(3)] == [best, 5, 1]


def test_a_request_that_cannot_be_sent_leaves_the_connection_as_it_was(
    broker: EmbeddedBroker, clients: Clients
) -> None:
    connection = clients.connection(broker.bootstrap)
    with pytest.raises(LocalProtocolError):
        connection.send(MetadataRequest(topics=None), version=0)
    with pytest.raises(LocalProtocolError, match="send a request before"):
        connection.receive()
    with pytest.raises(LocalProtocolError, match="acks=0"):
        connection.call(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]))
    connection.call(MetadataRequest(topics=[]))


def test_a_call_needs_an_empty_pipeline(broker: EmbeddedBroker, clients: Clients) -> None:
    connection = clients.connection(broker.bootstrap)
    connection.send(MetadataRequest(topics=[]))
    with pytest.raises(LocalProtocolError, match="1 answers are due before that of Metadata"):
        connection.call(MetadataRequest(topics=[]))
    connection.receive()


def test_a_pinned_version_asks_nothing(broker: EmbeddedBroker, clients: Clients) -> None:
    rule = broker.drop(ApiVersionsRequest, times=-1)
    try:
        connection = clients.connection(broker.bootstrap, broker_version="0.8.2")
        assert connection.send(MetadataRequest(topics=[])).version == 0
        assert connection.receive().version == 0
        assert rule.struck == 0
    finally:
        broker.clear_faults()


def test_a_broker_that_hangs_up_on_the_question_is_an_old_one(
    broker: EmbeddedBroker, clients: Clients
) -> None:
    broker.drop(ApiVersionsRequest, times=-1)
    try:
        connection = clients.connection(broker.bootstrap)
        assert connection.versions.generation == "0.9", "it answers ListGroups, and cannot tell its versions"
        connection.call(MetadataRequest(topics=[]))
    finally:
        broker.clear_faults()


def test_a_broker_that_hangs_up_once_is_asked_again(broker: EmbeddedBroker, clients: Clients) -> None:
    broker.drop(ApiVersionsRequest, times=1)
    assert clients.connection(broker.bootstrap).versions.origin is VersionsOrigin.ADVERTISED


def test_a_late_answer_can_be_waited_for_again(broker: EmbeddedBroker, clients: Clients) -> None:
    connection = clients.connection(broker.bootstrap)
    broker.delay(MetadataRequest, 0.3)
    connection.send(MetadataRequest(topics=[]))
    with pytest.raises(RequestTimedOut, match=r"no answer to Metadata v\d+ #\d+ in 20 ms"):
        connection.receive(timeout_ms=20)
    assert connection.is_open
    connection.receive()


def test_a_call_that_took_too_long_ends_the_connection(broker: EmbeddedBroker, clients: Clients) -> None:
    connection = clients.connection(broker.bootstrap)
    broker.delay(MetadataRequest, 0.3)
    with pytest.raises(RequestTimedOut):
        connection.call(MetadataRequest(topics=[]), timeout_ms=20)
    assert not connection.is_open
    with pytest.raises(ConnectionLost, match="open another"):
        connection.call(MetadataRequest(topics=[]))


def test_a_broken_connection_tells_what_was_lost(broker: EmbeddedBroker, clients: Clients) -> None:
    connection = clients.connection(broker.bootstrap)
    connection.call(MetadataRequest(topics=[]))
    broker.drop(ListOffsetsRequest)
    connection.send(ListOffsetsRequest())
    connection.send(MetadataRequest(topics=[]))
    with pytest.raises(ConnectionLost, match=r"without an answer: ListOffsets .*, Metadata "):
        connection.receive()
    assert not connection.is_open
    assert connection.in_flight_count == 2


def test_poll_never_waits(broker: EmbeddedBroker, clients: Clients) -> None:
    connection = clients.connection(broker.bootstrap)
    assert connection.poll() is None
    for _ in range(3):
        connection.send(MetadataRequest(topics=[]))
    answers = 0
    while answers < 3:
        assert select.select([connection], [], [], 10)[0]
        while connection.poll() is not None:
            answers += 1


def test_answers_are_received_into_memory_of_the_caller(broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic)
    config = Clients.config(None, broker.bootstrap)  # type: ignore[arg-type]
    sizes: list[int] = []

    def allocate(size: int) -> bytearray:
        sizes.append(size)
        return bytearray(size)

    with Connection.open(config.bootstrap[0], config, allocate=allocate) as connection:
        connection.call(asking(topic))
    assert sizes


def test_another_thread_ends_a_receive_at_once(broker: EmbeddedBroker, clients: Clients, topic: str) -> None:
    broker.create_topic(topic)
    connection = clients.connection(broker.bootstrap)
    connection.send(polling(topic, 60_000), at_most=12)
    timer = threading.Timer(0.05, connection.interrupt)
    timer.start()
    with pytest.raises(ConnectionLost, match="interrupted"):
        connection.receive()
    timer.join()
    connection.send(asking(topic))  # the owner may say goodbye before it closes


def test_an_interruption_is_shared_and_outlives_connections(broker: EmbeddedBroker) -> None:
    config = Clients.config(None, broker.bootstrap)  # type: ignore[arg-type]
    with Interruption() as interruption:
        with Connection.open(config.bootstrap[0], config, interruption=interruption) as connection:
            connection.call(MetadataRequest(topics=[]))
        interruption.interrupt()
        with pytest.raises(ConnectionLost, match="interrupted"):
            Connection.open(config.bootstrap[0], config, interruption=interruption)
    interruption.interrupt()  # of something closed: nothing happens


def test_interrupting_a_closed_connection_is_harmless(broker: EmbeddedBroker, clients: Clients) -> None:
    connection = clients.connection(broker.bootstrap)
    connection.close()
    connection.close()
    connection.interrupt()
    assert connection.fileno() == -1


def test_a_connection_notices_that_the_broker_is_gone(clients: Clients) -> None:
    with EmbeddedBroker() as broker:
        connection = clients.connection(broker.bootstrap)
        assert connection.is_usable()
        broker.stop()
        wait_for(lambda: not connection.is_usable())
        assert not connection.is_open


def test_nobody_listens(clients: Clients) -> None:
    with EmbeddedBroker() as broker:
        bootstrap = broker.bootstrap
    config = clients.config(bootstrap)
    with pytest.raises(BrokerUnreachable, match=f"{bootstrap} cannot be reached: Connection refused"):
        Connection.open(config.bootstrap[0], config)
    with pytest.raises(BrokerUnreachable, match=f"broker 7 advertises {bootstrap}, which cannot be reached"):
        Connection.open(config.bootstrap[0], config, broker_id=7)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "two..dots", "x" * 70])
def test_a_name_that_does_not_exist(clients: Clients, host: str) -> None:
    config = clients.config(f"{host}:9092")
    with pytest.raises(BrokerUnreachable, match="its name cannot be resolved"):
        Connection.open(config.bootstrap[0], config)


def test_socket_options_are_set(broker: EmbeddedBroker, clients: Clients) -> None:
    connection = clients.connection(broker.bootstrap, receive_buffer_bytes=131_072, send_buffer_bytes=65_536)
    connection.call(MetadataRequest(topics=[]))


def test_nothing_is_left_open(broker: EmbeddedBroker, clients: Clients) -> None:
    config = clients.config(broker.bootstrap)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with Connection.open(config.bootstrap[0], config) as connection:
            connection.call(MetadataRequest(topics=[]))
    # The broker of this process closes its ends a moment later.
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= before)

"""Brokers that cannot be reached, or whose answers make no sense: whoever waits for them learns why."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from ottla import Admin, GroupConsumer, PartitionConsumer, Producer, SimpleConsumer, replay
from ottla.broker.embedded import EmbeddedBroker
from ottla.client import network_errors
from ottla.client.network_errors import CLUSTER, TELL_AFTER_MS, TELL_AGAIN_MS, NetworkErrors, broker
from ottla.consumer.simple import find_leader
from ottla.model.address import parse_address
from ottla.model.errors import (
    BrokerUnreachable,
    DeliveryExpired,
    LocalProtocolError,
    OttlaError,
    ProducerClosed,
)
from tests.client.bad_peers import BAD_PEERS, BadPeer
from tests.client.manual_clock import ManualClock
from tests.client.raw_server import RawServer
from tests.waiting import wait_for

WARNINGS = "ottla.client.network_errors"


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first failure is told: tests do not wait for the time that a restart may take."""
    monkeypatch.setattr(network_errors, "TELL_AFTER_MS", 0.0)


PEERS = [pytest.param(peer, id=name) for name, peer in BAD_PEERS.items()]
WAITED_FOR = [peer for peer in PEERS if peer.id != "unknown version"]
"""A broker whose versions are not ours is given up at once: no wait makes it older."""


def settings_for(peer: BadPeer, address: str) -> dict[str, Any]:
    return {"bootstrap_servers": address, "api_version_request_timeout_ms": peer.timeout_ms}


def told(caplog: pytest.LogCaptureFixture, cause: str) -> bool:
    return any(
        record.name == WARNINGS
        and record.levelno == logging.WARNING
        and bool(re.search(cause, record.getMessage()))
        for record in caplog.records
    )


@pytest.mark.parametrize("peer", WAITED_FOR)
def test_what_a_producer_raises_names_the_cause(peer: BadPeer, caplog: pytest.LogCaptureFixture) -> None:
    cause = peer.cause
    with peer.serve() as address:
        producer = Producer(**settings_for(peer, address))
        delivery = producer.send("orders", b"v")
        wait_for(lambda: told(caplog, cause))
        with pytest.raises(TimeoutError, match=cause):
            delivery.result(0.01)
        with pytest.raises(TimeoutError, match=cause):
            producer.flush(0.01)
        with pytest.raises(ProducerClosed, match=cause):
            producer.close(0.01)


@pytest.mark.parametrize("peer", WAITED_FOR)
def test_consumers_that_reach_nobody_say_why(peer: BadPeer, caplog: pytest.LogCaptureFixture) -> None:
    cause = peer.cause
    with ExitStack() as stack:
        settings = settings_for(peer, stack.enter_context(peer.serve()))
        group = stack.enter_context(GroupConsumer("orders", group_id="g", **settings))
        assert group.poll(0) is None
        wait_for(lambda: told(caplog, cause))
        caplog.clear()
        partitions = stack.enter_context(PartitionConsumer(**settings))
        partitions.consume_partition("orders", 0, "earliest")
        assert list(partitions.messages(0.01)) == []
        wait_for(lambda: told(caplog, cause))


@pytest.mark.parametrize("peer", PEERS)
def test_calls_end_with_the_cause(peer: BadPeer) -> None:
    with ExitStack() as stack:
        address = stack.enter_context(peer.serve())
        settings = settings_for(peer, address)
        quick: dict[str, Any] = {"api_version_request_timeout_ms": peer.timeout_ms}
        producer = stack.enter_context(Producer(**settings))
        group = stack.enter_context(GroupConsumer("orders", group_id="g", **settings))
        partitions = stack.enter_context(PartitionConsumer(**settings))
        simple = stack.enter_context(SimpleConsumer(*parse_address(address), **quick))
        calls: list[Callable[[], object]] = [
            Admin(**settings).list_topics,
            producer.check_brokers,
            group.check_brokers,
            partitions.check_brokers,
            simple.topic_metadata,
            lambda: find_leader(address, "orders", 0, timeout=0, **quick),
        ]
        for call in calls:
            with pytest.raises(OttlaError, match=peer.cause) as raised:
                call()
            assert address in str(raised.value)


def test_a_broker_without_common_versions_is_not_waited_for() -> None:
    serve, cause, _ = BAD_PEERS["unknown version"]
    with serve() as address, ExitStack() as stack:
        producer = stack.enter_context(Producer(bootstrap_servers=address))
        with pytest.raises(LocalProtocolError, match=cause):
            producer.send("orders", b"v").result(60)
        consumer = stack.enter_context(PartitionConsumer(bootstrap_servers=address))
        consumer.consume_partition("orders", 0, "earliest")
        with pytest.raises(LocalProtocolError, match=cause):
            list(consumer.messages(60))


@pytest.mark.parametrize("name", ["refusing", "garbage"])
def test_a_replay_ends_with_the_cause(name: str) -> None:
    serve, cause, _ = BAD_PEERS[name]
    with serve() as address, pytest.raises(BrokerUnreachable, match=cause):
        replay("orders", bootstrap_servers=address, request_timeout_ms=500).to_table()


def test_a_peer_that_is_silent_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with RawServer.silent() as server, Producer(bootstrap_servers=str(server.address)) as producer:
        delivery = producer.send("orders", b"v")
        with pytest.raises(TimeoutError, match=f"{server.address} has not answered for"):
            delivery.result(2)
        with pytest.raises(ProducerClosed, match=f"{server.address} has not answered for"):
            producer.close(0)


def test_a_partition_without_a_leader_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=2)  # one on each broker
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            cluster.stop_broker(1)
            deliveries = [producer.send("orders", b"v", partition=number) for number in (0, 1)]
            wait_for(lambda: told(caplog, "LEADER_NOT_AVAILABLE"))
            with pytest.raises(TimeoutError, match=r"partitions [01]: LEADER_NOT_AVAILABLE"):
                [delivery.result(0.5) for delivery in deliveries]
            cluster.start_broker(1)
            assert [delivery.result(60).offset for delivery in deliveries] == [0, 0]
        wait_for(lambda: told(caplog, "topic 'orders' answers again"))


def test_topics_that_nobody_waits_for_are_no_cause(caplog: pytest.LogCaptureFixture) -> None:
    """One never existed and its record was given up; one was deleted after its record was stored."""
    settings: dict[str, Any] = {"allow_auto_create_topics": False, "max_block_ms": 3000}
    with (
        EmbeddedBroker() as cluster,
        Producer(bootstrap_servers=cluster.bootstrap, **settings) as producer,
    ):
        for name in ("deleted", "orders"):
            cluster.create_topic(name)
        producer.send("deleted", b"v").result(60)
        assert isinstance(producer.send("nowhere", b"v").exception(60), DeliveryExpired)
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.delete_topics("deleted")
        caplog.clear()
        producer.send("orders", b"v").result(60)
        assert not told(caplog, "deleted")
        rule = cluster.delay("Produce", 600)
        delivery = producer.send("orders", b"v")
        wait_for(lambda: rule.struck)
        with pytest.raises(TimeoutError, match=f"{cluster.bootstrap} has not answered for"):
            delivery.result(2)
        cluster.clear_faults()
        with contextlib.suppress(ProducerClosed):
            producer.close(0)


def test_a_broker_that_drops_every_fetch_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """It tells its versions and describes the cluster, so connections to it open well."""
    with EmbeddedBroker() as cluster:
        cluster.create_topic("orders")
        fault = cluster.drop("Fetch", times=-1)
        with PartitionConsumer(bootstrap_servers=cluster.bootstrap) as consumer:
            consumer.consume_partition("orders", 0, "earliest")
            wait_for(lambda: told(caplog, "broker 0: no usable answer"))
            assert fault.struck


def test_a_connection_that_ends_while_nobody_asks_is_no_silence(caplog: pytest.LogCaptureFixture) -> None:
    """Brokers close idle connections after ten minutes; an hour later that must not be the news."""
    caplog.set_level(logging.INFO)
    with (
        EmbeddedBroker(properties={"connections.max.idle.ms": 4000}) as cluster,
        Producer(bootstrap_servers=cluster.bootstrap) as producer,
    ):
        producer.send("orders", b"v").result(60)
        wait_for(lambda: "the broker closed the connection" in caplog.text)
    assert not told(caplog, "no usable answer")


def test_what_a_broker_keeps_by_intention_is_no_silence() -> None:
    """A long poll at the end of a log, and a join that waits for a member that does not poll."""
    with EmbeddedBroker() as cluster, ExitStack() as stack:
        cluster.create_topic("orders")
        settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "fetch_wait_max_ms": 30_000}
        reader = stack.enter_context(PartitionConsumer(**settings))
        reader.consume_partition("orders", 0, "earliest")
        members = [stack.enter_context(GroupConsumer("orders", settings, group_id="g")) for _ in range(2)]
        wait_for(lambda: members[0].poll(0.1) or members[0].assignment)
        assert members[1].poll(2) is None
        assert list(reader.messages(0)) == []
        assert reader.network_error is None
        assert [member.network_error for member in members] == [None, None]


def test_one_warning_for_a_silence_and_one_each_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(network_errors, "TELL_AFTER_MS", TELL_AFTER_MS)
    clock = ManualClock()
    errors = NetworkErrors(clock.now_ms)
    lost = BrokerUnreachable("refused")

    def fail_for(duration_ms: float) -> int:
        caplog.clear()
        for _ in range(10):
            clock.pause(duration_ms / 10)
            errors.failed(CLUSTER, lost)
        return len(caplog.records)

    errors.failed(CLUSTER, lost)
    assert fail_for(TELL_AFTER_MS * 0.9) == 0
    assert fail_for(TELL_AFTER_MS) == 1
    assert fail_for(TELL_AGAIN_MS * 0.8) == 0
    assert fail_for(TELL_AGAIN_MS * 0.5) == 1
    errors.answered(CLUSTER)
    assert "the cluster answers again" in caplog.text
    assert errors.of(CLUSTER) is None
    errors.failed(broker(1), lost, since_ms=clock.now_ms() - TELL_AFTER_MS)
    assert "broker 1: no usable answer for 2 s" in caplog.text

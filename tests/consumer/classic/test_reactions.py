"""Every error code for the classic consumer: it reads on, or says that it does not, and can be told to."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from ottla import (
    Admin,
    Code,
    ConsumerConnector,
    EmbeddedBroker,
    Health,
    KafkaStream,
    OttlaError,
    TopicAndPartition,
)
from ottla.client.client_config import ClientConfig
from ottla.client.reactions import Action, Call, action_for
from ottla.model.errors import ConfigError, KafkaError, MessageSizeTooLarge
from ottla.offsets import KafkaOffsets, OffsetAndMetadata, OffsetStore, ZooKeeperOffsets
from ottla.zookeeper.kazoo_session import KazooZooKeeperSession
from tests.consumer.classic.conftest import Connectors
from tests.error_codes import CODES
from tests.fetching.traffic import Writer
from tests.waiting import wait_for

TRIGGERS = {
    Call.FETCH: None,
    Call.LIST_OFFSETS: Code.OFFSET_OUT_OF_RANGE,
    Call.METADATA: Code.NOT_LEADER_OR_FOLLOWER,
}
"""What Fetch answers, so that the call is made."""
QUICK = {"fetch_wait_max_ms": 10, "refresh_leader_backoff_ms": 1, "retry_backoff_ms": 1}


@pytest.fixture(autouse=True)
def _without_faults(broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> object:
    caplog.set_level(logging.CRITICAL, logger="ottla")
    yield
    broker.clear_faults()


def read_to(connector: ConsumerConnector, stream: KafkaStream, offset: int) -> list[OttlaError]:
    """Read until the offset; a partition that stops is tried again."""
    raised: list[OttlaError] = []

    def is_read() -> bool:
        try:
            return any(message.offset >= offset for message in stream.messages(timeout=0.01))
        except OttlaError as error:
            raised.append(error)
            connector.retry()
            return False

    wait_for(is_read, lambda: f"offset {offset}: {connector!r}, {connector.stopped}, {raised}", pause=0.001)
    return raised


def reading(
    connector: Connectors, writer: Writer, partition: TopicAndPartition, **settings: object
) -> tuple[ConsumerConnector, KafkaStream]:
    """A connector and its stream that have read the first record of a topic."""
    writer.write(partition, 1)
    consumer = connector(**{**QUICK, **settings})
    (stream,) = consumer.create_message_streams({partition.topic: 1})[partition.topic]
    read_to(consumer, stream, 0)
    return consumer, stream


@pytest.mark.parametrize("call", TRIGGERS, ids=lambda call: call.value)
def test_every_code(
    connector: Connectors, broker: EmbeddedBroker, writer: Writer, topic: str, call: Call
) -> None:
    partition = TopicAndPartition(topic, 0)
    one, stream = reading(connector, writer, partition)
    is_known = call is Call.METADATA  # the known leader is still asked
    for number, code in enumerate(CODES, start=1):
        rule = broker.fail(call.value, code)
        trigger = TRIGGERS[call]
        if trigger is not None:
            broker.fail("Fetch", trigger)
        wait_for(lambda rule=rule: rule.struck, f"{code.name} strikes", pause=0.001)
        writer.write(partition, 1)
        raised = read_to(one, stream, number)
        assert not raised or (action_for(code, call) is Action.FAIL and not is_known), (
            f"{code.name}: {raised}"
        )
    assert (one.stopped, one.health) == ({}, Health.STABLE)


# --- offsets in Kafka

STORES = pytest.mark.parametrize("is_dual", [False, True], ids=["kafka", "kafka-and-zookeeper"])


def stored_in_kafka(is_dual: bool) -> dict[str, object]:
    return {
        **QUICK,
        "retry_backoff_max_ms": 5,
        "offsets_storage": "kafka",
        "dual_commit_enabled": is_dual,
        "auto_commit_enable": False,
        "rebalance_backoff_ms": 10,
        "rebalance_max_retries": 1000,
    }


@pytest.fixture
def stores(
    broker: EmbeddedBroker, zookeeper: KazooZooKeeperSession, is_dual: bool
) -> Iterator[list[OffsetStore]]:
    """All stores of the group's offsets, as others see them."""
    with KafkaOffsets(ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap})) as kafka:
        yield [kafka, ZooKeeperOffsets(zookeeper)] if is_dual else [kafka]


@STORES
def test_every_code_of_commits(
    connector: Connectors,
    broker: EmbeddedBroker,
    writer: Writer,
    topic: str,
    stores: list[OffsetStore],
    is_dual: bool,
) -> None:
    """A commit is repeated, or raises and has changed no store. The streams are read on."""
    partition = TopicAndPartition(topic, 0)
    one, stream = reading(connector, writer, partition, **stored_in_kafka(is_dual))
    stored = 0
    for offset, (call, code) in enumerate(
        ((call, code) for call in (Call.OFFSET_COMMIT, Call.FIND_COORDINATOR) for code in CODES), start=1
    ):
        if call is Call.FIND_COORDINATOR:
            broker.fail("OffsetCommit", Code.NOT_COORDINATOR)  # so that it is looked up again
        rule = broker.fail(call.value, code)
        is_retried = action_for(code, call) in {Action.RETRY, Action.REFRESH, Action.FIND_COORDINATOR}
        with nullcontext() if is_retried else pytest.raises(OttlaError):
            one.commit({partition: offset})
        stored = offset if is_retried else stored
        for store in stores:
            found = store.fetch(one.group_id, [partition])
            assert found.get(partition, OffsetAndMetadata(0)).offset == stored, f"{call} {code.name} {store}"
        assert rule.struck, f"{call} {code.name}"
    writer.write(partition, 1)
    read_to(one, stream, 1)
    assert (one.stopped, one.health) == ({}, Health.STABLE)


@STORES
@pytest.mark.parametrize("call", [Call.FIND_COORDINATOR, Call.OFFSET_FETCH], ids=lambda call: call.value)
def test_every_code_of_the_look_up_of_offsets(
    connector: Connectors,
    broker: EmbeddedBroker,
    writer: Writer,
    topic: str,
    name: str,
    stores: list[OffsetStore],
    call: Call,
    is_dual: bool,
) -> None:
    """One start meets them one after the other. It never takes an error for "nothing is committed"."""
    partitions = [TopicAndPartition(topic, number) for number in range(4)]
    for partition in partitions:
        writer.write(partition, 2)
    for store in stores:
        store.commit(name, dict.fromkeys(partitions, OffsetAndMetadata(1)))
    rules = {code: broker.fail(call.value, code) for code in CODES}
    one = connector(**stored_in_kafka(is_dual))
    (stream,) = one.create_message_streams({topic: 1})[topic]
    assert [next(stream).offset for _ in partitions] == [1, 1, 1, 1]
    assert [code.name for code, rule in rules.items() if not rule.struck] == []
    assert (one.stopped, one.health) == ({}, Health.STABLE)


# --- the state


def test_a_stopped_partition_is_shown_until_somebody_acts(
    connector: Connectors, broker: EmbeddedBroker, writer: Writer, topic: str, connect: str
) -> None:
    partition = TopicAndPartition(topic, 0)
    one, stream = reading(connector, writer, partition)
    broker.fail("Fetch", Code.TOPIC_AUTHORIZATION_FAILED, times=-1)
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        next(stream)
    wait_for(lambda: len(one.stopped) == 4, "all partitions are stopped")
    assert one.health is Health.DEGRADED
    assert (one.metrics().health, set(one.metrics().stopped)) == (Health.DEGRADED, set(one.assignment))
    with pytest.raises(ConfigError, match="no records to skip"):
        one.skip(partition)
    with pytest.raises(ConfigError, match="not read by this consumer"):
        one.retry(TopicAndPartition("unknown", 0))
    with Admin(bootstrap_servers=broker.bootstrap, zookeeper_connect=connect) as admin:

        def told() -> set[str]:
            return {row.stopped for row in admin.group_lag(one.group_id).partitions}

        wait_for(lambda: told() == {"stopped by TOPIC_AUTHORIZATION_FAILED"}, "lag shows it")
        broker.clear_faults()
        one.retry()
        wait_for(lambda: told() == {""}, "and no more")
    writer.write(partition, 1)
    read_to(one, stream, 1)
    wait_for(lambda: one.stopped == {} and one.health is Health.STABLE, "all is well")


def test_a_message_that_is_too_large_for_an_old_broker_can_be_skipped(
    connector: Connectors, writer: Writer, topic: str
) -> None:
    """Before Fetch 3, brokers cut a message that does not fit."""
    partition = TopicAndPartition(topic, 0)
    writer.write(partition, 2, at_once=1)
    writer.write(partition, 1, size=20_000)
    writer.write(partition, 2, at_once=1)
    one = connector(**QUICK, fetch_message_max_bytes=10_000, broker_version="0.9")
    (stream,) = one.create_message_streams({topic: 1})[topic]
    assert [next(stream).offset for _ in range(2)] == [0, 1]
    with pytest.raises(MessageSizeTooLarge, match=r"skip\(\) the message: that goes on at offset 3"):
        next(stream)
    assert (list(one.stopped), one.health) == ([partition], Health.DEGRADED)
    assert one.skip(partition) == 3
    assert [next(stream).offset for _ in range(2)] == [3, 4]
    assert (one.stopped, one.health) == ({}, Health.STABLE)

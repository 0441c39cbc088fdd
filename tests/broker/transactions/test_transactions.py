"""Transactions of a real client on the embedded broker: librdkafka. Others are in tests/compatibility."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ottla import EmbeddedBroker
from ottla.broker.coordination.led_partitions import partition_for
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TRANSACTIONS_TOPIC
from ottla.wire.api.describe_transactions import DescribedTransaction, DescribeTransactionsRequest
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.list_transactions import ListTransactionsRequest
from ottla.wire.api.offset_fetch import OffsetFetchGroup, OffsetFetchGroupTopic, OffsetFetchRequest
from tests.blocking_client import BlockingClient
from tests.broker.real_clients import Sender, send
from tests.broker.transactions.committed import read_committed
from tests.waiting import PATIENCE_S, wait_for

NAME = "orders"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def producer(broker: EmbeddedBroker, name: str = NAME, **settings: Any) -> Producer:
    """A producer that is ready to begin."""
    sender = Sender(broker.bootstrap, transactional_id=name, **settings)
    sender.producer.init_transactions(PATIENCE_S)
    return sender.producer


def write(one: Producer, *values: bytes, topic: str = "t", partition: int = 0) -> None:
    """Begin a transaction, and have records stored in it."""
    one.begin_transaction()
    for value in values:
        one.produce(topic, value, partition=partition)
    assert one.flush(PATIENCE_S) == 0


def readable(broker: EmbeddedBroker, partition: int = 0, *, committed: bool = True) -> list[bytes]:
    """All that a reader gets up to the end that it is told."""
    level = "read_committed" if committed else "read_uncommitted"
    return read_committed(broker.bootstrap, "t", partition, level=level)


def client(broker: EmbeddedBroker, asked: int = 0) -> BlockingClient:
    """A connection to the coordinator of the transactional id; `asked` is the broker that knows it."""
    host, port = broker.bootstrap.split(",")[asked].split(":")
    with BlockingClient(host, int(port)) as any_broker:
        request = FindCoordinatorRequest(coordinator_keys=[NAME], key_type=1)
        (found,) = any_broker.call(request).coordinators
    return BlockingClient(found.host, found.port)


def described(broker: EmbeddedBroker, asked: int = 0) -> DescribedTransaction:
    with client(broker, asked) as connection:
        (one,) = connection.call(DescribeTransactionsRequest(transactional_ids=[NAME])).transaction_states
    return one


def test_what_is_committed_is_read_and_what_is_aborted_is_not(broker: EmbeddedBroker) -> None:
    one = producer(broker)
    for number in range(4):
        write(one, b"%d" % number, b"%d" % number)
        write_end = one.abort_transaction if number % 2 else one.commit_transaction
        write_end(PATIENCE_S)
    assert readable(broker) == [b"0", b"0", b"2", b"2"]
    assert len(readable(broker, committed=False)) == 8
    assert described(broker).transaction_state == "CompleteAbort"


def test_readers_of_committed_data_stop_before_an_open_transaction(broker: EmbeddedBroker) -> None:
    one = producer(broker)
    write(one, b"open")
    send(broker.bootstrap, "t", [b"behind"])
    assert readable(broker) == []
    assert readable(broker, committed=False) == [b"open", b"behind"]
    one.commit_transaction(PATIENCE_S)
    assert readable(broker) == [b"open", b"behind"]


def test_a_second_producer_with_the_same_id_fences_the_first(broker: EmbeddedBroker) -> None:
    old = producer(broker)
    write(old, b"lost")
    new = producer(broker)
    with pytest.raises(KafkaException) as fenced:
        old.commit_transaction(PATIENCE_S)
    assert fenced.value.args[0].fatal()
    write(new, b"kept")
    new.commit_transaction(PATIENCE_S)
    assert readable(broker) == [b"kept"]


def test_a_transaction_that_takes_too_long_is_aborted(tmp_path: Path) -> None:
    interval = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with EmbeddedBroker(tmp_path, properties=interval) as broker:
        one = producer(broker, transaction_timeout_ms=1000)
        write(one, b"late")
        wait_for(lambda: described(broker).transaction_state == "CompleteAbort", "the abort")
        with pytest.raises(KafkaException):
            one.commit_transaction(PATIENCE_S)
        assert readable(broker) == []


def test_offsets_are_committed_with_the_records(broker: EmbeddedBroker) -> None:
    send(broker.bootstrap, "in", [b"a", b"b"])
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("in", 0, 0)])
    one = producer(broker)

    def sent(offset: int) -> None:
        write(one, b"%d" % offset, topic="out")
        positions = [TopicPartition("in", 0, offset)]
        one.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE_S)

    sent(1)
    assert stored(broker) == (-1, Code.NONE)
    assert stored(broker, stable=True) == (-1, Code.UNSTABLE_OFFSET_COMMIT)
    one.commit_transaction(PATIENCE_S)
    assert stored(broker) == stored(broker, stable=True) == (1, Code.NONE)
    sent(2)
    one.abort_transaction(PATIENCE_S)
    assert stored(broker, stable=True) == (1, Code.NONE)
    consumer.close()


def stored(broker: EmbeddedBroker, *, stable: bool = False) -> tuple[int, int]:
    """The offset of group g for the topic "in", and the error."""
    topics = [OffsetFetchGroupTopic(name="in", partition_indexes=[0])]
    groups = [OffsetFetchGroup(group_id="g", topics=topics)]
    host, port = broker.bootstrap.split(",")[0].split(":")
    with BlockingClient(host, int(port)) as connection:
        request = OffsetFetchRequest(groups=groups, require_stable=stable)
        (only,) = connection.call(request, 9).groups[0].topics[0].partitions
    return only.committed_offset, only.error_code


@pytest.mark.parametrize("commit", [True, False])
def test_a_restart_in_the_middle_of_a_transaction(tmp_path: Path, commit: bool) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        send(broker.bootstrap, "in", [b"a"])
        one = producer(broker)
        write(one, b"before")
        metadata = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        position = [TopicPartition("in", 0, 1)]
        one.send_offsets_to_transaction(position, metadata.consumer_group_metadata(), PATIENCE_S)
        broker.stop()
        broker.start()
        assert described(broker).transaction_state == "Ongoing"
        assert readable(broker) == []
        one.produce("t", b"after", partition=0)
        assert one.flush(PATIENCE_S) == 0
        if commit:
            one.commit_transaction(PATIENCE_S)
        else:
            one.abort_transaction(PATIENCE_S)
        assert readable(broker) == ([b"before", b"after"] if commit else [])
        assert stored(broker, stable=True) == (1 if commit else -1, Code.NONE)
        metadata.close()


def test_a_decided_transaction_is_completed_after_a_restart(tmp_path: Path) -> None:
    """Its partition was offline when it was decided: the marker is written when it is back."""
    with EmbeddedBroker(tmp_path, brokers=2) as broker:
        broker.create_topic("t")
        coordinator = partition_for(NAME, 50) % 2
        broker.move_leader("t", 0, 1 - coordinator)
        one = producer(broker)
        write(one, b"kept")
        broker.stop_broker(1 - coordinator)
        one.commit_transaction(PATIENCE_S)
        assert described(broker, coordinator).transaction_state == "PrepareCommit"
        broker.stop()
        broker.start()
        wait_for(lambda: described(broker).transaction_state == "CompleteCommit", "the markers")
        assert readable(broker) == [b"kept"]


def test_a_coordinator_that_moves_goes_on(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, brokers=3) as broker:
        broker.create_topic("t", partitions=3)
        one = producer(broker)
        for number in range(6):
            one.begin_transaction()
            for partition in range(3):
                one.produce("t", b"%d" % number, partition=partition)
            assert one.flush(PATIENCE_S) == 0
            broker.move_leader(TRANSACTIONS_TOPIC, partition_for(NAME, 50), number % 3)
            broker.move_leader("t", number % 3, (number + 1) % 3)
            if number % 2:
                one.abort_transaction(PATIENCE_S)
            else:
                one.commit_transaction(PATIENCE_S)
        for partition in range(3):
            assert readable(broker, partition=partition) == [b"0", b"2", b"4"]


def test_a_coordinator_that_dies_is_replaced(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, brokers=3) as broker:
        coordinator = partition_for(NAME, 50) % 3
        broker.create_topic("t", replication_factor=3)
        one = producer(broker)
        write(one, b"kept")
        broker.stop_broker(coordinator)
        one.commit_transaction(PATIENCE_S)
        write(one, b"lost")
        broker.start_broker(coordinator)
        one.abort_transaction(PATIENCE_S)
        assert readable(broker) == [b"kept"]


def test_tools_list_and_end_transactions(broker: EmbeddedBroker) -> None:
    write(producer(broker), b"left")
    with client(broker) as connection:
        listed = connection.call(ListTransactionsRequest(state_filters=["Ongoing"]))
        assert [one.transactional_id for one in listed.transaction_states] == [NAME]
        started = connection.call(
            InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=1000), 5
        )
        assert started.error_code == Code.NONE
        ended = connection.call(
            EndTxnRequest(
                transactional_id=NAME,
                producer_id=started.producer_id,
                producer_epoch=started.producer_epoch,
                committed=True,
            )
        )
        assert ended.error_code == Code.INVALID_TXN_STATE, "there is nothing to commit"
    assert described(broker).transaction_state == "Empty"
    assert readable(broker) == []

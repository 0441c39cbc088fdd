"""Transactions as a partition sees them, over a socket: Produce, WriteTxnMarkers, Fetch, ListOffsets.

What the coordinator would say is set by the tests.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.storage.open_transactions import Refusals, TransactionClaim
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.reader import decode
from ottla.wire.api.describe_producers import DescribeProducersRequest, DescribeProducersTopic
from ottla.wire.api.fetch import FetchPartitionResponse, FetchResponse
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.produce import ProducePartitionResponse, ProduceResponse
from ottla.wire.api.write_txn_markers import WritableMarker, WritableMarkerTopic, WriteTxnMarkersRequest
from ottla.wire.declared_class import replaced
from tests.broker.traffic import (
    answers,
    data_of,
    fetch,
    fetch_request,
    numbered,
    offset_at,
    one,
    produce,
    produce_request,
)
from tests.broker.wire_client import Client
from tests.log.record_sets import batch
from tests.waiting import wait_for

COMMITTED = 1
PRODUCER = 4711


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def plain(value: bytes) -> bytearray:
    """A record of no transaction. Of now, as all others: an older one would be alone in its segment."""
    return one(value, timestamp=now_ms())


class Coordinator:
    """Answers as it is told: all are admitted, unless they are refused by name or `is_holding`."""

    def __init__(self) -> None:
        self.claims: list[TransactionClaim] = []
        self.refusals: dict[TopicAndPartition, KafkaError] = {}
        self.is_holding = False
        self.held: list[Callable[[Refusals], None]] = []

    def admit(self, claim: TransactionClaim, then: Callable[[Refusals], None]) -> None:
        self.claims.append(claim)
        if self.is_holding:
            self.held.append(then)
        else:
            then(self.refusals)


def installed(broker: EmbeddedBroker) -> Coordinator:
    """Ask this one from now on."""
    coordinator = Coordinator()
    nodes = broker._running().nodes.values()
    broker._call(lambda: [setattr(node.broker, "transactions", coordinator) for node in nodes])
    return coordinator


@pytest.fixture
def coordinator(broker: EmbeddedBroker) -> Iterator[Coordinator]:
    nodes = broker._running().nodes.values()
    before = {node: node.broker.transactions for node in nodes}
    yield installed(broker)
    broker._call(lambda: [setattr(node.broker, "transactions", kept) for node, kept in before.items()])


class Writer:
    """A transactional producer of one partition, as far as the partition can see it."""

    def __init__(self, client: Client, topic: str, producer_id: int = PRODUCER, partition: int = 0) -> None:
        self.client, self.topic, self.producer_id, self.partition = client, topic, producer_id, partition
        self.epoch = self.sequence = 0

    def batch(self, *values: bytes) -> bytearray:
        stamp: dict[str, Any] = {"producer_id": self.producer_id, "producer_epoch": self.epoch}
        stamp |= {"base_sequence": self.sequence, "timestamp": now_ms()}
        return batch(*((b"k", value) for value in values), transactional=True, **stamp)

    def send(self, *values: bytes, version: int = 13) -> None:
        """Only send; the answer is received later."""
        request = produce_request(self.client, {(self.topic, self.partition): self.batch(*values)}, version)
        self.client.send(replaced(request, transactional_id="t"), version)
        self.sequence += len(values)

    def write(self, *values: bytes, version: int = 13) -> ProducePartitionResponse:
        self.send(*values, version=version)
        return received(self.client)

    def end(
        self, *, is_commit: bool, epoch: int | None = None, coordinator_epoch: int = 0, version: int = 2
    ) -> int:
        """The error code."""
        topics = [WritableMarkerTopic(name=self.topic, partition_indexes=[self.partition])]
        marker = WritableMarker(
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            transaction_result=is_commit,
            topics=topics,
            coordinator_epoch=coordinator_epoch,
        )
        response = self.client.call(WriteTxnMarkersRequest(markers=[marker]), version)
        return response.markers[0].topics[0].partitions[0].error_code


def received(client: Client) -> ProducePartitionResponse:
    response = client.receive()
    assert isinstance(response, ProduceResponse)
    (answer,) = response.responses[0].partition_responses
    return answer


def committed(client: Client, topic: str, offset: int = 0, **how: Any) -> FetchPartitionResponse:
    return fetch(client, topic, offset, isolation_level=COMMITTED, **how)


def values_of(answer: FetchPartitionResponse) -> list[bytes | None]:
    """What a consumer makes of it."""
    decoded = decode(data_of(answer), aborted=answer.aborted_transactions).batch if answer.records else None
    found: list[bytes | None] = decoded.column("value").to_pylist() if decoded is not None else []
    return found


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 18])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_reader_of_committed_data_sees_a_transaction_when_it_is_committed(
    client: Client, topic: str, coordinator: Coordinator, version: int, is_commit: bool
) -> None:
    writer = Writer(client, topic)
    produce(client, topic, plain(b"before"))
    assert writer.write(b"a", b"b").base_offset == 1
    produce(client, topic, plain(b"behind"))
    answer = committed(client, topic, version=version)
    assert (answer.high_watermark, answer.last_stable_offset) == (4, 1)
    assert values_of(answer) == [b"before"]
    everything = fetch(client, topic, 0, version=version)
    assert (values_of(everything), everything.last_stable_offset) == ([b"before", b"a", b"b", b"behind"], 1)
    assert everything.aborted_transactions is None
    assert committed(client, topic, 1, version=version).records == b""
    assert writer.end(is_commit=is_commit) == Code.NONE
    answer = committed(client, topic, version=version)
    assert (answer.high_watermark, answer.last_stable_offset) == (5, 5)
    assert values_of(answer) == [b"before", *([b"a", b"b"] if is_commit else []), b"behind"]
    told = [(item.producer_id, item.first_offset) for item in answer.aborted_transactions or ()]
    assert told == ([] if is_commit else [(PRODUCER, 1)])


@pytest.mark.parametrize("version", [0, 3])
def test_a_reader_that_knows_no_transactions_gets_all_records_and_no_marker(
    client: Client, topic: str, coordinator: Coordinator, version: int
) -> None:
    writer = Writer(client, topic)
    for value, is_commit in ((b"a", True), (b"b", False)):
        writer.write(value)
        assert writer.end(is_commit=is_commit) == Code.NONE
    produce(client, topic, plain(b"behind"))
    for offset, expected in ((0, [(0, b"a"), (2, b"b"), (4, b"behind")]), (1, [(2, b"b"), (4, b"behind")])):
        found = decode(data_of(fetch(client, topic, offset, version=version))).batch
        columns = (found.column(name).to_pylist() for name in ("offset", "value"))
        assert list(zip(*columns, strict=True)) == expected


def latest(client: Client, topic: str, isolation_level: int, timestamp: int = -1) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsTopic(name=topic, partitions=[asked])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
    return client.call(request, 10).topics[0].partitions[0].offset


def test_the_end_of_a_partition_is_by_isolation_level(
    client: Client, topic: str, coordinator: Coordinator
) -> None:
    produce(client, topic, one(b"before", timestamp=1000))
    writer = Writer(client, topic)
    writer.write(b"a")
    assert [latest(client, topic, level) for level in (0, COMMITTED)] == [2, 1]
    assert [latest(client, topic, level, 2000) for level in (0, COMMITTED)] == [1, -1]
    writer.end(is_commit=True)
    assert [latest(client, topic, level) for level in (0, COMMITTED)] == [3, 3]
    assert latest(client, topic, COMMITTED, 2000) == 1


@pytest.mark.parametrize("min_bytes", [1, 3000])
def test_a_waiting_reader_of_committed_data_is_woken_by_the_marker_alone(
    broker: EmbeddedBroker, client: Client, topic: str, coordinator: Coordinator, min_bytes: int
) -> None:
    writer = Writer(client, topic)
    writer.write(b"x" * 2000)
    with Client.of(broker.bootstrap) as reader:
        request = fetch_request(
            reader, {(topic, 0): 0}, isolation_level=COMMITTED, max_wait_ms=60_000, min_bytes=min_bytes
        )
        reader.send(request)
        partition = broker._running().cluster.store.partition(topic, 0)
        wait_for(lambda: bool(partition.listeners), "the fetch waits")
        writer.write(b"y" * 2000)
        produce(client, topic, plain(b"behind"))
        assert partition.listeners, "what is not committed does not end the wait"
        writer.end(is_commit=True)
        response = reader.receive()
    assert isinstance(response, FetchResponse)
    (answer,) = answers(response)
    assert answer.last_stable_offset == 4
    assert values_of(answer) == [b"x" * 2000, b"y" * 2000, b"behind"]


def test_the_coordinator_is_asked_once_for_a_transaction_in_a_partition(
    client: Client, topic: str, coordinator: Coordinator
) -> None:
    writer, other = Writer(client, topic), Writer(client, topic, partition=1)
    for version in (11, 11, 13):
        assert writer.write(b"a", version=version).error_code == Code.NONE
    other.write(b"b", version=13)
    writer.end(is_commit=True)
    writer.write(b"c", version=12)
    claimed = [
        (*claim[:3], [item.partition for item in claim.partitions], claim[4]) for claim in coordinator.claims
    ]
    assert claimed == [
        ("t", PRODUCER, 0, [0], False),
        ("t", PRODUCER, 0, [1], True),
        ("t", PRODUCER, 0, [0], True),
    ]


def test_what_comes_behind_a_batch_that_waits_for_the_coordinator_waits_too(
    broker: EmbeddedBroker, client: Client, topic: str, coordinator: Coordinator
) -> None:
    coordinator.is_holding = True
    writer = Writer(client, topic)
    for number in range(4):
        writer.send(b"%d" % number, version=12)
    wait_for(lambda: bool(coordinator.held), "the coordinator is asked")
    with Client.of(broker.bootstrap) as other:
        assert offset_at(other, topic, -1).offset == 0
    assert len(coordinator.claims) == 1
    broker._call(lambda: coordinator.held.pop()({}))
    assert [received(client).base_offset for _ in range(4)] == [0, 1, 2, 3]
    assert len(coordinator.claims) == 1
    assert values_of(fetch(client, topic, 0)) == [b"0", b"1", b"2", b"3"]


def test_a_refusal_of_the_coordinator_is_the_answer_and_leaves_nothing(
    client: Client, topic: str, coordinator: Coordinator
) -> None:
    refusal = KafkaError(Code.TRANSACTION_ABORTABLE, "not added")
    coordinator.refusals[TopicAndPartition(topic, 1)] = refusal
    sets = {(topic, index): Writer(client, topic, partition=index).batch(b"a") for index in range(3)}
    request = replaced(produce_request(client, sets), transactional_id="t")
    found = client.call(request, 13).responses[0].partition_responses
    assert [item.error_code for item in found] == [Code.NONE, Code.TRANSACTION_ABORTABLE, Code.NONE]
    assert "not added" in (found[1].error_message or "")
    assert [len(coordinator.claims), len(coordinator.claims[0].partitions)] == [1, 3]
    assert [offset_at(client, topic, -1, index).offset for index in range(3)] == [1, 0, 1]


def test_a_repeated_batch_is_known_without_the_coordinator(
    client: Client, topic: str, coordinator: Coordinator
) -> None:
    """Its transaction may have ended meanwhile."""
    writer = Writer(client, topic)
    writer.write(b"a")
    writer.end(is_commit=True)
    writer.sequence = 0
    again = writer.write(b"a")
    assert (again.error_code, again.base_offset, len(coordinator.claims)) == (Code.NONE, 0, 1)
    assert offset_at(client, topic, -1).offset == 2


def test_what_ends_a_transaction_is_checked(client: Client, topic: str, coordinator: Coordinator) -> None:
    writer = Writer(client, topic)
    writer.epoch = 3
    writer.write(b"a")
    assert writer.end(is_commit=True, epoch=2) == Code.INVALID_PRODUCER_EPOCH
    assert writer.end(is_commit=True, epoch=4, coordinator_epoch=8, version=1) == Code.NONE
    assert writer.end(is_commit=True, epoch=4, coordinator_epoch=7) == Code.TRANSACTION_COORDINATOR_FENCED
    assert writer.write(b"b").error_code == Code.INVALID_PRODUCER_EPOCH, "the marker began the next epoch"
    writer.epoch, writer.sequence = 4, 0
    assert writer.write(b"c").error_code == Code.NONE
    writer.topic = "not there"
    assert writer.end(is_commit=True) == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_producers_are_described_with_their_open_transactions(
    client: Client, topic: str, coordinator: Coordinator
) -> None:
    produce(client, topic, batch(*numbered(5)))
    writer = Writer(client, topic)
    writer.write(b"a", b"b")

    def described() -> list[tuple[int, ...]]:
        topics = [DescribeProducersTopic(name=topic, partition_indexes=[0, 7])]
        known, missing = client.call(DescribeProducersRequest(topics=topics), 0).topics[0].partitions
        assert missing.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        return [
            (
                item.producer_id,
                item.producer_epoch,
                item.last_sequence,
                item.coordinator_epoch,
                item.current_txn_start_offset,
            )
            for item in known.active_producers
        ]

    assert described() == [(PRODUCER, 0, 1, -1, 5)]
    writer.end(is_commit=False, coordinator_epoch=9)
    assert described() == [(PRODUCER, 0, 1, 9, -1)]


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_open_transaction_outlives_the_broker(tmp_path: Path, is_clean: bool) -> None:
    data, killed = tmp_path / "data", tmp_path / "killed"
    with EmbeddedBroker(data_dir=data) as broker, Client.of(broker.bootstrap) as client:
        installed(broker)
        broker.create_topic("t")
        first, second = Writer(client, "t"), Writer(client, "t", PRODUCER + 1)
        first.write(b"aborted")
        second.write(b"open")
        first.end(is_commit=False)
        shutil.copytree(data, killed)  # what a killed process leaves
    with (
        EmbeddedBroker(data_dir=data if is_clean else killed) as broker,
        Client.of(broker.bootstrap) as client,
    ):
        installed(broker)
        answer = committed(client, "t")
        assert (answer.last_stable_offset, values_of(answer)) == (1, [])
        produce(client, "t", plain(b"plain"))
        second.client = client
        assert second.write(b"more").error_code == Code.NONE
        assert second.end(is_commit=True) == Code.NONE
        answer = committed(client, "t")
        assert values_of(answer) == [b"open", b"plain", b"more"]
        assert answer.last_stable_offset == answer.high_watermark == 6

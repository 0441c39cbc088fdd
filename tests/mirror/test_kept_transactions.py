"""Transactions of the source over several partitions: the target has each in one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer as ConfluentProducer

from ottla import Admin, EmbeddedBroker, Producer, TopicAndPartition, replay
from ottla.admin import NewTopic
from ottla.broker.transactions.brokers import TransactionBrokers
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.mirror import cut_source
from ottla.mirror.source_cuts import LogSpans
from ottla.mirror.source_logs import SourceLogs
from ottla.mirror.sources import SourceEvents
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from tests.mirror.clusters import running
from tests.mirror.conftest import Mirrors
from tests.scale import seeded, sized
from tests.waiting import wait_for
from tools.peers import KAFKA_4, RealKafka

PARTITIONS = 3
TRANSACTIONS = sized(25, 2_000)


def transactions_with(broker: EmbeddedBroker, topic: str) -> dict[bytes, set[object]]:
    """For each value that was committed, the transactions that it was written in."""
    properties: dict[str, Any] = {"bootstrap_servers": broker.bootstrap}
    messages = list(replay(topic, isolation_level="read_committed", **properties).messages())
    logs = {TopicAndPartition(topic, each): LogSpans(0) for each in range(PARTITIONS)}
    with SourceLogs(properties) as read:
        assert read.read_on(logs, read.ends(logs))
    found: dict[bytes, set[object]] = {}
    for message in messages:
        log = logs[TopicAndPartition(topic, message.partition)]
        (writer,) = [span.writer for span in log.committed if span.first <= message.offset <= span.last]
        found.setdefault(message.raw_value or b"", set()).add(writer)
    return found


def copied(broker: EmbeddedBroker, topic: str) -> set[bytes]:
    return set(transactions_with(broker, topic))


def send(producer: Producer, topic: str, value: str, partitions: Iterable[int]) -> None:
    for partition in partitions:
        producer.send(topic, value, partition=partition).result(timeout=30)


@pytest.fixture
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mirrors wait for a cut as long as it takes."""
    monkeypatch.setattr(cut_source, "PATIENCE_INTERVALS", 10_000)


def writer(broker: EmbeddedBroker | RealKafka, name: str) -> Producer:
    return Producer(bootstrap_servers=broker.bootstrap, transactional_id=name, linger_ms=0)


def decide_behind_an_open_one(first: Producer, second: Producer, topic: str) -> None:
    """Commit a transaction of `first` in partitions 0 and 1; one of `second` stays open before it in 1."""
    second.begin()
    send(second, topic, "open", [1])
    first.begin()
    send(first, topic, "decided", [0, 1])
    first.commit()


@pytest.mark.usefixtures("no_hurry")
def test_a_transaction_behind_an_open_one(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    """It is decided in partition 0, and cannot be read in partition 1."""
    one = mirror(exactly_once=True, offset_commit_interval=0.05)
    with writer(source, f"{topic}-1") as first, writer(source, f"{topic}-2") as second, running(one):
        decide_behind_an_open_one(first, second, topic)
        with Producer(bootstrap_servers=source.bootstrap) as plain:
            send(plain, topic, "elsewhere", [2])
        wait_for(lambda: copied(target, topic) == {b"elsewhere"}, "what can be copied is mirrored")
        second.commit()
        wait_for(lambda: len(copied(target, topic)) == 3, "all is mirrored")
        found = transactions_with(target, topic)
        assert {value: len(each) for value, each in found.items()} == dict.fromkeys(found, 1)
    assert one.metrics().divided == 0


@pytest.mark.usefixtures("no_hurry")
def test_a_marker_that_is_late(
    source: EmbeddedBroker,
    target: EmbeddedBroker,
    topic: str,
    mirror: Mirrors,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Partition 1 has no leader when the transaction is committed; what came before is copied meanwhile."""
    right, is_back = TransactionBrokers.end_transaction, threading.Event()

    def late(brokers: TransactionBrokers, partition: Any, marker: Any) -> None:
        if (partition.topic, partition.index) == (topic, 1) and not is_back.is_set():
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, str(partition))
        right(brokers, partition, marker)

    one = mirror(exactly_once=True, offset_commit_interval=0.05)
    with writer(source, topic) as producer, running(one):
        with producer.transaction():
            send(producer, topic, "before", range(PARTITIONS))
        monkeypatch.setattr(TransactionBrokers, "end_transaction", late)
        producer.begin()
        send(producer, topic, "late", range(PARTITIONS))
        producer.commit()  # it is decided; the markers follow
        stable = {TopicAndPartition(topic, 0): 4, TopicAndPartition(topic, 2): 4}
        with SourceLogs({"bootstrap_servers": source.bootstrap}) as logs:
            wait_for(lambda: logs.stable(stable) == stable, "the other partitions have their markers")
        with Producer(bootstrap_servers=source.bootstrap) as plain:
            send(plain, topic, "behind", [0, 2])
        wait_for(lambda: copied(target, topic) == {b"before"}, "what is before is mirrored")
        is_back.set()
        wait_for(lambda: len(copied(target, topic)) == 3, "all is mirrored")
        found = transactions_with(target, topic)
        assert len(found[b"before"]) == len(found[b"late"]) == 1
        assert found[b"before"].isdisjoint(found[b"late"])
    assert one.metrics().divided == 0


def test_overlapping_transactions_are_copied_after_a_while(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    """Nothing divides them but time: the mirror goes on, and counts it."""
    one = mirror(exactly_once=True, offset_commit_interval=0.05)
    with writer(source, f"{topic}-1") as first, writer(source, f"{topic}-2") as second, running(one):
        decide_behind_an_open_one(first, second, topic)
        wait_for(lambda: copied(target, topic) == {b"decided"}, "a part is mirrored")
        assert one.metrics().divided > 0
        second.commit()
        wait_for(lambda: len(copied(target, topic)) == 2, "all is mirrored")


@pytest.fixture(params=["ottla", KAFKA_4])
def either_source(
    request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka], source: EmbeddedBroker
) -> EmbeddedBroker | RealKafka:
    return source if request.param == "ottla" else real_kafka(request.param)


@pytest.mark.usefixtures("no_hurry")
def test_random_transactions_of_old_and_new_producers(
    either_source: EmbeddedBroker | RealKafka, target: EmbeddedBroker, name: str, mirror: Mirrors
) -> None:
    """librdkafka's producers keep their epoch, ours change it with each transaction (KIP-890)."""
    topic, bootstrap = name, either_source.bootstrap
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(topic, PARTITIONS))
    chance, committed = seeded(topic), dict[str, int]()
    old = ConfluentProducer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-old", "linger.ms": 0}
    )
    old.init_transactions(30)
    one = mirror({"bootstrap.servers": bootstrap}, exactly_once=True, offset_commit_interval=0.05)
    with writer(either_source, f"{topic}-new") as new, running(one) as errors:
        for number in range(TRANSACTIONS):
            names = [kind for kind in ("old", "new") if chance.random() < 0.7]
            partitions = {kind: chance.sample(range(PARTITIONS), chance.randint(1, 3)) for kind in names}
            for kind, chosen in partitions.items():
                old.begin_transaction() if kind == "old" else new.begin()
                for partition in chosen:
                    produce(old if kind == "old" else new, topic, f"{kind}-{number}", partition)
            chance.shuffle(names)
            for kind in names:
                if chance.random() < 0.2:
                    old.abort_transaction(30) if kind == "old" else new.abort()
                else:
                    old.commit_transaction(30) if kind == "old" else new.commit()
                    committed[f"{kind}-{number}"] = len(partitions[kind])
        wait_for(lambda: len(copied(target, topic)) == len(committed), "all is mirrored")
        found = transactions_with(target, topic)
    assert not errors
    assert {value.decode(): len(each) for value, each in found.items()} == dict.fromkeys(committed, 1)
    assert one.metrics().divided == 0


def produce(producer: Any, topic: str, value: str, partition: int) -> None:
    if isinstance(producer, ConfluentProducer):
        producer.produce(topic, value, partition=partition)
        producer.flush(30)
    else:
        send(producer, topic, value, [partition])


class TwoPartitions:
    """A source with a chunk of four records in each of two partitions."""

    def __init__(self, events: SourceEvents) -> None:
        self.events = events
        self.places = [TopicAndPartition("t", each) for each in range(2)]
        self.at = dict.fromkeys(self.places, 0)
        self.staying: set[TopicAndPartition] = set()

    def poll(self) -> FetchedDataChunk | None:
        for each in self.places:
            if self.at[each] == 0 and each not in self.staying:
                self.at[each] = 4
                return FetchedDataChunk(each, pa.record_batch({"offset": [0, 1, 2, 3]}), 0, 4, 4, 32)
        return None

    def positions(self) -> dict[TopicAndPartition, int]:
        return dict(self.at)

    def stay(self, topic_partition: TopicAndPartition) -> None:
        self.staying.add(topic_partition)

    def go_on(self, topic_partition: TopicAndPartition) -> None:
        self.staying.remove(topic_partition)

    def go_back(self, topic_partition: TopicAndPartition, offset: int) -> None:
        self.go_on(topic_partition)
        self.at[topic_partition] = offset

    def commit(self, positions: Any) -> bool:
        return bool(positions)


class Ends:
    """Logs without transactions that end at 2."""

    def stable(self, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        return dict.fromkeys(partitions, 2)

    ends = stable

    def read_on(self, *_arguments: object) -> bool:
        return True


def test_a_rebalance_between_cuts_commits_nothing() -> None:
    releases: list[str] = []
    events = SourceEvents(lambda: releases.append("commit"), lambda _lost: None, lambda _known: {})
    cuts: Any = cut_source.CutSource(TwoPartitions, events, Ends(), interval_ms=60_000)  # type: ignore[arg-type]
    inner = cuts._source
    handed: list[FetchedDataChunk] = []
    while len(handed) < 1:
        handed += filter(None, [cuts.poll()])
    assert handed[0].next_offset == 2
    assert not cuts.is_at_cut
    assert cuts.divides
    inner.events.on_release()
    assert not releases
    assert inner.at[handed[0].topic_partition] == 2
    while not cuts.is_at_cut:
        handed += filter(None, [cuts.poll()])
    assert [chunk.batch.num_rows for chunk in handed] == [2, 2]
    assert not cuts.divides
    inner.events.on_release()
    assert releases == ["commit"]
    assert inner.at == dict.fromkeys(inner.places, 2)

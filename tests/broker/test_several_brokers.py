"""brokers=3: what clients see of a cluster, of a broker's death and of a leader's move."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException

from ottla import ConfigError, EmbeddedBroker, KafkaError
from ottla.model.error_codes import Code
from ottla.wire.api.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.metadata import (
    MetadataPartitionResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.api.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.blocking_client import BlockingClient
from tests.broker.faults.batches import batch
from tests.broker.real_clients import (
    Sender,
    group_member,
    python_member,
    read,
    read_with,
    read_with_python,
    send,
)
from tests.kafka_python import KafkaProducer
from tests.waiting import wait_for

VALUES = [b"%d" % number for number in range(10)]
BY_NAME = 12
"""Of Produce and Fetch: the newest version that names topics by their names."""


@pytest.fixture
def three() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=3) as broker:
        yield broker


def client(cluster: EmbeddedBroker, broker_id: int) -> BlockingClient:
    host, _, port = cluster.bootstrap.split(",")[broker_id].rpartition(":")
    return BlockingClient(host, int(port))


def metadata(cluster: EmbeddedBroker, broker_id: int, topic: str) -> MetadataResponse:
    with client(cluster, broker_id) as connection:
        return connection.call(MetadataRequest(topics=[MetadataTopic(name=topic)]))


def partition(
    cluster: EmbeddedBroker, topic: str, index: int = 0, *, ask: int = 0
) -> MetadataPartitionResponse:
    return metadata(cluster, ask, topic).topics[0].partitions[index]


def leaders(cluster: EmbeddedBroker, topic: str, ask: int = 0) -> list[int]:
    return [one.leader_id for one in metadata(cluster, ask, topic).topics[0].partitions]


def fetch_request(topic: str, *, offset: int = 0, epoch: int = -1, max_wait_ms: int = 0) -> FetchRequest:
    wanted = FetchPartition(
        partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1 << 20
    )
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics)


def fetched(connection: BlockingClient, request: FetchRequest) -> FetchPartitionResponse:
    return connection.call(request, version=BY_NAME).responses[0].partitions[0]


def produce_request(topic: str, value: bytes) -> ProduceRequest:
    item = ProducePartition(index=0, records=batch((None, value)))
    return ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[ProduceTopic(name=topic, partition_data=[item])]
    )


def only(response: ProduceResponse) -> ProducePartitionResponse:
    return response.responses[0].partition_responses[0]


# --- what there is


def test_every_broker_tells_of_all_of_them(three: EmbeddedBroker) -> None:
    addresses = three.bootstrap.split(",")
    answers = [metadata(three, broker_id, "events") for broker_id in range(3)]
    for answer in answers:
        told = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
        assert told == dict(enumerate(addresses))
        assert answer.controller_id == 0
    assert len({answer.cluster_id for answer in answers}) == 1


def test_ids_count_from_the_first() -> None:
    with EmbeddedBroker(brokers=2, properties={"broker.id": "7"}) as cluster:
        assert [broker.node_id for broker in metadata(cluster, 0, "events").brokers] == [7, 8]
        cluster.stop_broker(7)
        assert [broker.node_id for broker in metadata(cluster, 1, "events").brokers] == [8]


@pytest.mark.parametrize("replication_factor", [1, 3])
def test_leaders_are_spread(three: EmbeddedBroker, replication_factor: int) -> None:
    three.create_topic("events", 6, replication_factor=replication_factor)
    assert leaders(three, "events") == [0, 1, 2, 0, 1, 2]
    three.stop()
    three.start()
    assert leaders(three, "events") == [0, 1, 2, 0, 1, 2]


def test_each_broker_serves_what_it_leads(three: EmbeddedBroker) -> None:
    three.create_topic("events", 3)
    for index in range(3):
        assert send(three.bootstrap, "events", VALUES, partition=index) == list(range(10))
    for index in range(3):
        assert read(three.bootstrap, "events", 10, partition=index) == VALUES


def test_who_does_not_lead_says_who_does(three: EmbeddedBroker) -> None:
    three.create_topic("events")
    with client(three, 1) as other:
        answer = other.call(produce_request("events", b"v"), version=BY_NAME)
        assert only(answer).error_code == Code.NOT_LEADER_OR_FOLLOWER
        assert (only(answer).current_leader.leader_id, only(answer).current_leader.leader_epoch) == (0, 0)
        assert [f"{one.host}:{one.port}" for one in answer.node_endpoints] == three.bootstrap.split(",")[:1]
        refused = fetched(other, fetch_request("events"))
        assert refused.error_code == Code.NOT_LEADER_OR_FOLLOWER
        assert refused.current_leader.leader_id == 0


# --- leaders move


def test_a_moved_leader_has_a_new_epoch_and_all_records(three: EmbeddedBroker) -> None:
    three.create_topic("events")
    send(three.bootstrap, "events", VALUES)
    three.move_leader("events", 0, 2)
    moved = partition(three, "events")
    assert (moved.leader_id, moved.leader_epoch, moved.replica_nodes, moved.isr_nodes) == (2, 1, [2], [2])
    assert send(three.bootstrap, "events", VALUES) == list(range(10, 20))
    assert read(three.bootstrap, "events", 20) == VALUES * 2
    three.move_leader("events", 0, 2)
    assert partition(three, "events").leader_epoch == 1


def test_a_move_among_replicas_keeps_them(three: EmbeddedBroker) -> None:
    three.create_topic("events", replication_factor=3)
    three.move_leader("events", 0, 2)
    moved = partition(three, "events")
    assert (moved.leader_id, moved.replica_nodes) == (2, [2, 0, 1])
    three.stop()
    three.start()
    assert partition(three, "events").leader_id == 2


def test_a_reader_that_waits_learns_of_the_move_at_once(three: EmbeddedBroker) -> None:
    three.create_topic("events")
    result: list[FetchPartitionResponse] = []
    with client(three, 0) as connection:
        # Far longer than the client waits: only the move can end it.
        request = fetch_request("events", max_wait_ms=3_600_000)
        reader = threading.Thread(target=lambda: result.append(fetched(connection, request)))
        reader.start()
        three.move_leader("events", 0, 1)
        reader.join()
    assert result[0].error_code == Code.NOT_LEADER_OR_FOLLOWER


def test_readers_with_another_epoch_are_fenced(three: EmbeddedBroker) -> None:
    three.create_topic("events")
    three.move_leader("events", 0, 1)
    with client(three, 1) as leader:
        assert fetched(leader, fetch_request("events", epoch=0)).error_code == Code.FENCED_LEADER_EPOCH
        assert fetched(leader, fetch_request("events", epoch=1)).error_code == Code.NONE
        assert fetched(leader, fetch_request("events", epoch=2)).error_code == Code.UNKNOWN_LEADER_EPOCH


def epoch_end(cluster: EmbeddedBroker, broker_id: int, epoch: int) -> EpochEndOffset:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="events", partitions=[asked])])
    with client(cluster, broker_id) as connection:
        return connection.call(request).topics[0].partitions[0]


def test_epochs_tell_where_they_ended(three: EmbeddedBroker) -> None:
    three.create_topic("events")
    for broker_id in (0, 1, 2):
        three.move_leader("events", 0, broker_id)
        send(three.bootstrap, "events", VALUES)
    ends = [epoch_end(three, 2, epoch) for epoch in range(4)]
    assert [(end.leader_epoch, end.end_offset) for end in ends] == [(0, 10), (1, 20), (2, 30), (-1, -1)]
    assert epoch_end(three, 0, 0).error_code == Code.NOT_LEADER_OR_FOLLOWER


def test_epochs_never_go_back(three: EmbeddedBroker) -> None:
    three.create_topic("events", replication_factor=3)
    epochs = [partition(three, "events").leader_epoch]
    for change in (
        lambda: three.move_leader("events", 0, 1),
        lambda: three.stop_broker(1),
        lambda: three.start_broker(1),
        lambda: (three.stop(), three.start()),
    ):
        change()
        epochs.append(partition(three, "events").leader_epoch)
    assert epochs == sorted(epochs)
    assert epochs[-1] > epochs[1] > epochs[0]


# --- brokers go and come


def test_a_dead_broker_is_gone_from_what_the_others_tell(three: EmbeddedBroker) -> None:
    three.create_topic("events", 3, replication_factor=3)
    with client(three, 1) as connection:
        three.stop_broker(1)
        with pytest.raises(ConnectionError):
            connection.call(MetadataRequest(topics=None))
    with pytest.raises(ConnectionRefusedError):
        client(three, 1)
    about = metadata(three, 0, "events")
    assert [broker.node_id for broker in about.brokers] == [0, 2]
    orphan = about.topics[0].partitions[1]
    assert (orphan.leader_id, orphan.leader_epoch) == (2, 1)
    assert (orphan.isr_nodes, orphan.offline_replicas) == ([2, 0], [1])
    three.start_broker(1)
    assert {broker.node_id for broker in metadata(three, 1, "events").brokers} == {0, 1, 2}
    assert leaders(three, "events") == [0, 2, 2]  # who leads stays, as in Kafka


def test_the_next_broker_is_controller_when_the_first_dies(three: EmbeddedBroker) -> None:
    three.stop_broker(0)
    assert metadata(three, 1, "events").controller_id == 1
    three.start_broker(0)
    assert metadata(three, 1, "events").controller_id == 0


def test_a_partition_without_a_live_broker_waits_for_it(three: EmbeddedBroker) -> None:
    three.create_topic("events", 2)
    send(three.bootstrap, "events", VALUES, partition=1)
    three.stop_broker(1)
    lost = partition(three, "events", 1)
    assert (lost.error_code, lost.leader_id, lost.isr_nodes) == (Code.LEADER_NOT_AVAILABLE, -1, [])
    assert partition(three, "events", 0).error_code == Code.NONE
    sender = Sender(three.bootstrap, topic_metadata_refresh_interval_ms=100, retry_backoff_ms=50)
    sender.send("events", VALUES, partition=1)
    three.start_broker(1)
    sender.flush()
    assert not sender.failed
    assert read(three.bootstrap, "events", 20, partition=1) == VALUES * 2


def test_new_topics_go_to_the_living(three: EmbeddedBroker) -> None:
    three.stop_broker(0)
    three.create_topic("events", 4)
    assert leaders(three, "events", ask=1) == [1, 2, 1, 2]
    with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR"):
        three.create_topic("other", replication_factor=3)


def test_heal_brings_all_of_them_back(three: EmbeddedBroker) -> None:
    three.fail("Metadata", Code.UNKNOWN_SERVER_ERROR, times=-1)
    three.stop_broker(0)
    three.stop_broker(2)
    three.heal()
    assert len(metadata(three, 0, "events").brokers) == 3


def test_what_cannot_be_done_is_refused(three: EmbeddedBroker) -> None:
    three.create_topic("events")
    with pytest.raises(ConfigError, match="no broker has the id 3; there are 0, 1, 2"):
        three.stop_broker(3)
    with pytest.raises(ConfigError, match="broker 0 is running"):
        three.start_broker(0)
    three.stop_broker(2)
    with pytest.raises(ConfigError, match="broker 2 is not running"):
        three.stop_broker(2)
    with pytest.raises(ConfigError, match="broker 2 is not running and cannot lead"):
        three.move_leader("events", 0, 2)
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        three.move_leader("events", 1, 0)
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        three.move_leader("other", 0, 0)


# --- real clients through all of that


class Trouble:
    """Moves the leader and kills its broker, in an order that a seed decides."""

    def __init__(self, cluster: EmbeddedBroker, topic: str, seed: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._random = random.Random(seed)

    def make(self) -> None:
        broker_id = self._random.randrange(3)
        if self._random.random() < 0.5:
            self._cluster.move_leader(self._topic, 0, broker_id)
        else:
            self._cluster.stop_broker(broker_id)
            self._cluster.start_broker(broker_id)


@pytest.mark.parametrize("seed", [1, 2])
def test_librdkafka_loses_and_repeats_nothing(three: EmbeddedBroker, seed: int) -> None:
    """Idempotent: what it sends again after a broken connection is known to the new leader."""
    three.create_topic("events", replication_factor=3)
    trouble = Trouble(three, "events", seed)
    sender = Sender(
        three.bootstrap,
        enable_idempotence=True,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=100,
        retry_backoff_ms=10,
        topic_metadata_refresh_interval_ms=200,
    )
    values = [b"%d" % number for number in range(600)]
    for start in range(0, 600, 30):
        sender.send("events", values[start : start + 30])
        wait_for(
            lambda start=start: sender.producer.poll(0.01) >= 0 and len(sender.delivered) > start,
            "an ack",
        )
        trouble.make()
    sender.flush()
    assert not sender.failed
    assert [message.offset() for message in sender.delivered] == list(range(600))
    assert read(three.bootstrap, "events", 600) == values


def test_kafka_python_loses_and_repeats_nothing(three: EmbeddedBroker) -> None:
    three.create_topic("events", replication_factor=3)
    trouble = Trouble(three, "events", seed=3)
    producer = KafkaProducer(
        bootstrap_servers=three.bootstrap.split(","),
        enable_idempotence=True,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=100,
        retry_backoff_ms=10,
    )
    values = [b"%d" % number for number in range(300)]
    futures = []
    for start in range(0, 300, 30):
        futures += [producer.send("events", value, partition=0) for value in values[start : start + 30]]
        futures[start].get(timeout=60)
        trouble.make()
    assert [future.get(timeout=60).offset for future in futures] == list(range(300))
    producer.close()
    assert read(three.bootstrap, "events", 300) == values


def coordinator(cluster: EmbeddedBroker, group: str, ask: int) -> int:
    with client(cluster, ask) as connection:
        return connection.call(FindCoordinatorRequest(coordinator_keys=[group])).coordinators[0].node_id


def test_a_group_of_librdkafka_moves_to_another_coordinator(three: EmbeddedBroker) -> None:
    three.create_topic("events", 2, replication_factor=3)
    send(three.bootstrap, "events", VALUES, partition=0)
    member = group_member(three.bootstrap, "g", ["events"])
    assert read_with(member, 10) == VALUES
    member.commit(asynchronous=False)
    before = coordinator(three, "g", ask=0)
    three.stop_broker(before)
    survivor = (before + 1) % 3
    after = coordinator(three, "g", ask=survivor)
    assert after not in {before, -1}
    send(three.bootstrap, "events", [b"after"], partition=1)
    assert read_with(member, 1) == [b"after"]
    wait_for(lambda: committed(member), "a commit at the new coordinator")
    member.close()
    three.start_broker(before)
    send(three.bootstrap, "events", [b"last"], partition=0)
    successor = group_member(three.bootstrap, "g", ["events"])
    assert read_with(successor, 1) == [b"last"]
    successor.close()


def committed(member: Consumer) -> bool:
    """Commit; a member that has just lost its coordinator may have to join anew first."""
    try:
        member.commit(asynchronous=False)
    except KafkaException:
        member.poll(0.1)
        return False
    return True


def test_a_group_of_kafka_python_moves_to_another_coordinator(three: EmbeddedBroker) -> None:
    three.create_topic("events", 2, replication_factor=3)
    send(three.bootstrap, "events", VALUES, partition=0)
    with python_member(three.bootstrap, "g", ["events"]) as member:
        assert read_with_python(member, 10) == VALUES
        member.commit()
        before = coordinator(three, "g", ask=0)
        three.stop_broker(before)
        send(three.bootstrap, "events", [b"after"], partition=1)
        assert read_with_python(member, 1) == [b"after"]
        member.commit()
    three.start_broker(before)
    send(three.bootstrap, "events", [b"last"], partition=0)
    with python_member(three.bootstrap, "g", ["events"]) as successor:
        assert read_with_python(successor, 1) == [b"last"]


def test_a_coordinator_that_is_not_one_says_so(three: EmbeddedBroker) -> None:
    """Offsets committed at one broker are read at the next one, and nowhere else."""
    three.create_topic("events")
    first = coordinator(three, "g", ask=0)
    commit = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitTopic(
                name="events", partitions=[OffsetCommitPartition(partition_index=0, committed_offset=42)]
            )
        ],
    )
    with client(three, first) as connection:
        assert connection.call(commit, version=7).topics[0].partitions[0].error_code == Code.NONE
    with client(three, (first + 1) % 3) as connection:
        refused = connection.call(commit, version=7).topics[0].partitions[0]
        assert refused.error_code == Code.NOT_COORDINATOR
    three.stop_broker(first)
    second = coordinator(three, "g", ask=(first + 1) % 3)
    with client(three, second) as connection:
        answer = connection.call(OffsetFetchRequest(group_id="g", topics=None), version=5)
    assert [one.committed_offset for one in answer.topics[0].partitions] == [42]

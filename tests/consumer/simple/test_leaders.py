"""Leaders that are found, that move and that die, on three brokers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from ottla import ConfigError, EmbeddedBroker, KafkaError
from ottla.consumer.simple import (
    LATEST_TIME,
    LeaderConsumer,
    SimpleConsumer,
    TopicAndPartition,
    find_coordinator,
    find_leader,
    find_new_leader,
)
from ottla.model.error_codes import Code
from ottla.model.errors import BrokerUnreachable
from tests.consumer.simple.traffic import one_fetch, write
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=3) as three:
        three.create_topic("t", 3, replication_factor=3)
        write(three.bootstrap, "t", b"0", b"1", b"2")
        yield three


@pytest.fixture
def cluster(brokers: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    yield brokers
    brokers.heal()


def test_the_leader_is_found_from_any_seed_that_answers(cluster: EmbeddedBroker) -> None:
    found = find_leader(["127.0.0.1:1", *cluster.bootstrap.split(",")], "t", 1)
    assert found.leader is not None
    assert (found.topic, found.partition_id, found.error_code) == ("t", 1, Code.NONE)
    assert {node.broker_id for node in found.replicas} == {0, 1, 2}
    assert found.leader in found.isr
    with SimpleConsumer(*found.leader.address) as consumer:
        assert not consumer.fetch(one_fetch("t", partition=1)).has_error


@pytest.mark.parametrize(("topic", "partition"), [("nowhere", 0), ("t", 9)])
def test_what_does_not_exist_is_waited_for_and_then_told(
    cluster: EmbeddedBroker, topic: str, partition: int
) -> None:
    with pytest.raises(KafkaError, match=f"topic '{topic}'") as caught:
        find_leader(cluster.bootstrap, topic, partition, timeout=0.1)
    assert caught.value.code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_seeds_that_do_not_answer_are_told() -> None:
    with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1"):
        find_leader("127.0.0.1:1", "t", 0, timeout=0.1)


def test_a_new_leader_is_found_through_the_replicas(cluster: EmbeddedBroker) -> None:
    old = find_leader(cluster.bootstrap, "t", 0)
    assert old.leader is not None
    cluster.stop_broker(old.leader.broker_id)
    new = find_new_leader(old)
    assert new.leader is not None
    assert new.leader.broker_id != old.leader.broker_id
    assert all(node.host for node in new.replicas if node.broker_id != old.leader.broker_id)


def test_the_same_leader_again_is_believed_in_the_end(cluster: EmbeddedBroker) -> None:
    old = find_leader(cluster.bootstrap, "t", 0)
    assert find_new_leader(old, cluster.bootstrap).leader == old.leader
    assert find_new_leader(old, cluster.bootstrap, timeout=0).leader == old.leader


def test_a_leader_that_was_elected_anew_is_another_one(cluster: EmbeddedBroker) -> None:
    old = find_leader(cluster.bootstrap, "t", 2)
    assert old.leader is not None
    here = old.leader.broker_id
    cluster.move_leader("t", 2, (here + 1) % 3)
    cluster.move_leader("t", 2, here)
    new = find_new_leader(old)
    assert (new.leader, new.leader_epoch > old.leader_epoch) == (old.leader, True)


def test_a_reader_follows_a_leader_that_moves(cluster: EmbeddedBroker) -> None:
    with LeaderConsumer(cluster.bootstrap, "t", 0, client_id="follower") as consumer:
        assert consumer.leader is None
        seen: list[int] = []
        for offset in range(3):
            (message, *_) = consumer.fetch(offset).message_set("t", 0)
            assert (message.offset, message.message.value) == (offset, b"%d" % offset)
            assert consumer.leader is not None
            seen.append(consumer.leader.broker_id)
            cluster.move_leader("t", 0, (seen[-1] + 1) % 3)
        assert len(set(seen)) == 3
        assert consumer.get_offsets_before(LATEST_TIME) == (3,)


def test_a_reader_goes_on_when_its_leader_dies(cluster: EmbeddedBroker) -> None:
    with LeaderConsumer(cluster.bootstrap, "t", 0) as consumer:
        consumer.fetch(0)
        first = consumer.leader
        assert first is not None
        cluster.stop_broker(first.broker_id)
        assert [one.offset for one in consumer.fetch(1).message_set("t", 0)] == [1, 2]
        assert consumer.leader not in {None, first}


def test_a_reader_waits_until_somebody_leads(cluster: EmbeddedBroker) -> None:
    with LeaderConsumer(cluster.bootstrap, "t", 0, timeout=PATIENCE_S) as consumer:
        consumer.fetch(0)
        for broker_id in range(3):
            cluster.stop_broker(broker_id)
        back = threading.Timer(0.3, cluster.start_broker, (1,))
        back.start()
        assert len(list(consumer.fetch(0).message_set("t", 0))) == 3
        back.join()


def test_what_no_leader_cures_is_the_caller_s(cluster: EmbeddedBroker) -> None:
    with LeaderConsumer(cluster.bootstrap, "t", 0) as consumer:
        assert consumer.fetch(50).error_code("t", 0) == Code.OFFSET_OUT_OF_RANGE


def test_a_reader_gives_up_when_its_time_is_over(cluster: EmbeddedBroker) -> None:
    with LeaderConsumer(cluster.bootstrap, "t", 0, timeout=0.05) as consumer:
        cluster.fail("Fetch", Code.NOT_LEADER_OR_FOLLOWER, times=-1)
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            consumer.fetch(2)


def test_a_closed_reader_stays_closed(cluster: EmbeddedBroker) -> None:
    consumer = LeaderConsumer(cluster.bootstrap, "t", 0)
    consumer.close()
    consumer.close()
    with pytest.raises(ConfigError, match="t-0 is closed"):
        consumer.fetch(0)


def test_a_coordinator_keeps_what_others_refuse(cluster: EmbeddedBroker) -> None:
    place = TopicAndPartition("t", 0)
    here = find_coordinator(cluster.bootstrap, "g")
    with SimpleConsumer(*here.address) as coordinator:
        coordinator.commit_offsets("g", {place: 2})
        assert coordinator.fetch_offsets("g", [place])[place].offset == 2
    other = next(address for address in cluster.bootstrap.split(",") if not address.endswith(f":{here.port}"))
    host, _, port = other.rpartition(":")
    with SimpleConsumer(host, int(port)) as stranger, pytest.raises(KafkaError, match="find_coordinator"):
        stranger.commit_offsets("g", {place: 3})


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: find_leader("", "t", 0), "seed_brokers"),
        (lambda: find_leader("kafka", "t", 0), "is no address of a broker"),
        (lambda: find_leader("kafka:9092", "", 0), "topic is ''"),
        (lambda: find_leader("kafka:9092", "t", "0"), "partition is '0'"),  # type: ignore[arg-type]
        (lambda: find_leader("kafka:9092", "t", 0, timeout=-1), "timeout is -1"),
        (lambda: find_leader("kafka:9092", "t", 0, client_ix="x"), "did you mean client_id"),
        (lambda: find_coordinator("kafka:9092", ""), "group is ''"),
        (lambda: LeaderConsumer("kafka:9092", "t", -1), "partition is -1"),
        (lambda: LeaderConsumer("kafka:9092", "t", 0, so_timeout=0), "so_timeout=0"),
        (lambda: LeaderConsumer("kafka:9092", "t", 0, **{"client.id": "x"}), "client.id and client_id"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_told_at_once(call: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        call()

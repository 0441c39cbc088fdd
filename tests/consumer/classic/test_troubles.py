"""Brokers that move, topics that are deleted, streams that nobody reads, groups that are others' already."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla import Admin, EmbeddedBroker, GroupConsumer
from ottla.consumer.classic import ConsumerConnector, Health, Whitelist
from ottla.model.errors import OffsetCommitFailed
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper import paths
from ottla.zookeeper.kazoo_session import KazooZooKeeperSession
from tests.consumer.classic.conftest import QUICK, Connectors, registered_at
from tests.consumer.classic.reading import member, offsets, seen_by, written
from tests.fetching.traffic import Writer
from tests.waiting import wait_for


def fill(writer: Writer, topic: str, count: int, partitions: int = 4) -> None:
    for partition in range(partitions):
        writer.write(TopicAndPartition(topic, partition), count)


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_a_cluster_that_goes_away_and_comes_back_elsewhere(
    connect: str, tmp_path: Path, storage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The watchdog says that nobody reads; ZooKeeper says where the brokers are now."""
    where = f"{connect}-{storage}"
    given = {**QUICK, "zookeeper_connect": where, "group_id": "g", "consumer_id": "a"}
    with ConsumerConnector({**given, "rebalance_watchdog_ms": 500}, offsets_storage=storage) as one:
        with EmbeddedBroker(tmp_path, properties=registered_at(where)) as first:
            former_port = first.port
            first.create_topic("t", 2)
            with Writer(first.bootstrap) as writer:
                fill(writer, "t", 5, partitions=2)
                reader = member(one, "t")
                wait_for(lambda: len(reader.seen) == 10, "all is read")
                one.commit_offsets()
                wait_for(lambda: one.health is Health.STABLE, "all is well")
                before = one.metrics().degradations
                caplog.clear()
        wait_for(lambda: one.health is Health.DEGRADED, "it is said")
        said = [record.getMessage() for record in caplog.records if "DEGRADED" in record.getMessage()]
        assert said == ["[g_a] DEGRADED: nobody reads 2 partitions: t-0, t-1"]
        assert one.metrics().degradations == before + 1
        with EmbeddedBroker(tmp_path, properties=registered_at(where)) as second:
            assert second.port != former_port
            with Writer(second.bootstrap) as another:
                another.ends = writer.ends
                fill(another, "t", 5, partitions=2)
            wait_for(lambda: len(reader.seen) == 20, "all is read")
            wait_for(lambda: one.health is Health.STABLE, "all is well")
            one.commit_offsets()
            one.shutdown()
    reader.join()
    assert set(reader.seen.values()) == {1}


def test_a_topic_that_is_deleted_and_made_again(
    connector: Connectors, broker: EmbeddedBroker, writer: Writer, topic: str, name: str
) -> None:
    """The other topics go on; the new one has offsets of its own."""
    other = f"{name}-other"
    broker.create_topic(other, 1)
    fill(writer, topic, 10)
    one = connector()
    (stream,) = one.create_message_streams_by_filter(Whitelist(f"{name}|{other}"))
    assert {next(stream).topic for _ in range(40)} == {topic}
    one.commit_offsets()
    broker.delete_topic(topic)
    wait_for(lambda: one.metrics().owned_partitions == 1, "the topic is gone")
    fill(writer, other, 1, partitions=1)
    assert next(stream).topic == other
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert topic not in admin.list_topics()  # no member has created it by asking for it
    broker.create_topic(topic, 4)
    wait_for(lambda: one.metrics().owned_partitions == 5, "the topic is there again")
    for partition in range(4):
        writer.ends[TopicAndPartition(topic, partition)] = 0
    fill(writer, topic, 3)
    found = [next(stream) for _ in range(12)]
    assert sorted((row.partition, row.offset) for row in found) == [
        (p, n) for p in range(4) for n in range(3)
    ]
    assert one.health is Health.STABLE


def test_a_stream_that_nobody_reads_is_in_nobodys_way(
    connector: Connectors, writer: Writer, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    """Its queue is full. Other streams get theirs, members come, and what it did not read goes to them."""
    fill(writer, topic, 2000)
    one = connector(consumer_id="a", queued_max_message_chunks=1, fetch_message_max_bytes=2000)
    idle, busy = one.create_message_streams({topic: 2})[topic]
    got = [next(busy) for _ in range(4000)]
    assert {row.partition for row in got} == {2, 3}
    two = connector(consumer_id="b")
    reader = member(two, topic)
    wait_for(lambda: two.metrics().owned_partitions == 1, "a thread of three has a partition")
    one.shutdown()
    assert list(idle) == []
    wait_for(lambda: two.metrics().owned_partitions == 4, "the other has all")
    wait_for(lambda: len(reader.seen) == 4000, "what was not read is read")
    two.shutdown()
    reader.join()
    seen = seen_by([reader])
    seen.update((row.topic, row.partition, row.offset) for row in got)
    assert set(seen) == written(writer.ends, topic)
    assert set(seen.values()) == {1}
    assert offsets(zookeeper, name, topic) == dict.fromkeys(range(4), 2000)


def test_a_live_group_of_the_same_name_keeps_its_offsets(
    connector: Connectors, broker: EmbeddedBroker, writer: Writer, topic: str, name: str
) -> None:
    """A coordinator takes no offsets from outside while the group has members, and that is said."""
    fill(writer, topic, 1)
    one = connector(offsets_storage="kafka", auto_commit_enable=False)
    (stream,) = one.create_message_streams({topic: 1})[topic]
    next(stream)
    with GroupConsumer(
        topic, group_id=name, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
    ) as modern:
        next(modern.messages())
        with pytest.raises(OffsetCommitFailed, match="members"):
            one.commit_offsets()
    one.commit_offsets()


def test_a_broken_offset_node_with_offsets_in_both(
    connector: Connectors,
    writer: Writer,
    topic: str,
    name: str,
    zookeeper: KazooZooKeeperSession,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    fill(writer, topic, 10, partitions=1)
    settings = {"offsets_storage": "kafka", "dual_commit_enabled": True}
    one = connector(**settings)
    (stream,) = one.create_message_streams({topic: 1})[topic]
    assert [next(stream).offset for _ in range(6)] == list(range(6))
    one.shutdown()
    path = paths.offset(name, topic, 0)
    zookeeper.set(path, b"six")
    (again,) = connector(**settings).create_message_streams({topic: 1})[topic]
    assert next(again).offset == 6
    assert len([record for record in caplog.records if path in record.getMessage()]) == 1

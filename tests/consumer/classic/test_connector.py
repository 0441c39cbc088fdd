"""Members of a group on a broker of ours and a real ZooKeeper: what applications rely on."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ottla import EmbeddedBroker
from ottla.consumer.classic import (
    Blacklist,
    ConsumerConnector,
    ConsumerThreadId,
    Health,
    KafkaStream,
    Whitelist,
)
from ottla.model.errors import ConfigError, ConsumerRebalanceFailed, ConsumerTimeout, MessageStreamsExist
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import RawMessageAndMetadata
from ottla.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.zookeeper import paths
from ottla.zookeeper.kazoo_session import KazooZooKeeperSession
from ottla.zookeeper.recipes import read_if_present
from ottla.zookeeper.session import CreateMode
from ottla.zookeeper.zookeeper_errors import ZooKeeperConnectionLost
from tests.blocking_client import BlockingClient
from tests.consumer.classic.conftest import Connectors, registered_at
from tests.consumer.classic.reading import Reader, member, offsets, owners, seen_by, written
from tests.fetching.traffic import Writer
from tests.waiting import wait_for


def fill(writer: Writer, topic: str, count: int, partitions: int = 4) -> None:
    for partition in range(partitions):
        writer.write(TopicAndPartition(topic, partition), count)


def grow(broker: EmbeddedBroker, topic: str, partitions: int) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    with BlockingClient(host, int(port)) as client:
        wanted = CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
        answer = client.call(CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000))
        assert answer.results[0].error_code == 0


# --- one member


def test_one_member_reads_everything(
    connector: Connectors, writer: Writer, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    fill(writer, topic, 50)
    one = connector(consumer_id="one")
    reader = member(one, topic, streams=3)
    wait_for(lambda: set(reader.seen) == written(writer.ends, topic), "all is read")
    assert one.health is Health.STABLE
    assert owners(zookeeper, name, topic) == {
        0: f"{name}_one-0",
        1: f"{name}_one-0",
        2: f"{name}_one-1",
        3: f"{name}_one-2",
    }
    registration = read_if_present(zookeeper, paths.consumer(name, f"{name}_one"))
    assert registration is not None
    fields = json.loads(registration.data)
    assert fields["subscription"] == {topic: 3}
    assert fields["pattern"] == "static"
    assert fields["version"] == 1
    one.shutdown()
    reader.join()
    assert max(reader.seen.values()) == 1
    assert offsets(zookeeper, name, topic) == dict.fromkeys(range(4), 50)
    assert owners(zookeeper, name, topic) == {}
    assert read_if_present(zookeeper, paths.consumer(name, f"{name}_one")) is None


def test_messages_have_their_places_and_decoders(connector: Connectors, writer: Writer, topic: str) -> None:
    fill(writer, topic, 1, partitions=1)
    (stream,) = connector().create_message_streams({topic: 1}, bytes.decode, bytes.decode)[topic]
    message = next(stream)
    assert (message.topic, message.partition, message.offset) == (topic, 0, 0)
    assert isinstance(message.value, str)
    assert message.message == message.value
    assert message.value.startswith("v0-")


def test_columns(
    connector: Connectors, writer: Writer, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    fill(writer, topic, 30, partitions=1)
    one = connector(auto_commit_enable=False)
    (stream,) = one.create_message_streams({topic: 1})[topic]
    first = next(stream)
    got = []
    for chunk in stream.chunks():
        assert isinstance(chunk.batch, pa.RecordBatch)
        got += chunk.batch.column("offset").to_pylist()
        if len(got) == 29:
            break
    assert [first.offset, *got] == list(range(30))
    one.commit_offsets()
    assert offsets(zookeeper, name, topic)[0] == 30


def test_what_was_handed_out_is_committed_and_nothing_else(
    connector: Connectors, writer: Writer, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    fill(writer, topic, 100, partitions=1)
    one = connector(auto_commit_enable=False)
    (stream,) = one.create_message_streams({topic: 1})[topic]
    assert [next(stream).offset for _ in range(17)] == list(range(17))
    one.commit_offsets()
    assert offsets(zookeeper, name, topic)[0] == 17
    assert [next(stream).offset for _ in range(3)] == [17, 18, 19]
    one.shutdown()
    assert offsets(zookeeper, name, topic)[0] == 17, "without auto-commit, it is the user who commits"
    (again,) = connector().create_message_streams({topic: 1})[topic]
    assert next(again).offset == 17


def test_offsets_of_choice_are_committed(
    connector: Connectors, writer: Writer, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    fill(writer, topic, 10)
    one = connector(auto_commit_enable=False)
    member_streams = one.create_message_streams({topic: 1})[topic]
    one.commit_offsets({TopicAndPartition(topic, 2): 7})
    assert offsets(zookeeper, name, topic) == {2: 7}
    one.shutdown()
    assert list(member_streams[0]) == []


def test_offsets_are_committed_by_and_by_and_only_when_they_changed(
    connector: Connectors, writer: Writer, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    fill(writer, topic, 10)
    one = connector(auto_commit_interval_ms=50)
    reader = member(one, topic)
    wait_for(lambda: offsets(zookeeper, name, topic) == dict.fromkeys(range(4), 10), "offsets are there")
    path = paths.offset(name, topic, 0)
    version = zookeeper.get(path).stat.version
    commits = one.metrics().commits
    wait_for(lambda: one.metrics().commits > commits + 3, "more commits")
    assert zookeeper.get(path).stat.version == version
    one.shutdown()
    reader.join()


@pytest.mark.parametrize("face", [lambda stream: stream, iter], ids=["stream", "iterator"])
def test_a_stream_without_messages_times_out_and_may_be_read_on(
    connector: Connectors,
    writer: Writer,
    topic: str,
    face: Callable[[KafkaStream], Iterator[RawMessageAndMetadata]],
) -> None:
    (stream,) = connector(consumer_timeout_ms=300).create_message_streams({topic: 1})[topic]
    messages = face(stream)
    for _ in range(2):
        with pytest.raises(ConsumerTimeout, match=r"consumer\.timeout\.ms=300"):
            next(messages)
    fill(writer, topic, 1, partitions=1)

    def found() -> bool:
        try:
            return next(messages).offset == 0
        except ConsumerTimeout:
            return False

    wait_for(found, "the message comes")


def test_a_topic_that_is_made_later(
    connector: Connectors, broker: EmbeddedBroker, writer: Writer, name: str
) -> None:
    one = connector()
    reader = member(one, name)
    broker.create_topic(name, 2)
    fill(writer, name, 5, partitions=2)
    wait_for(lambda: set(reader.seen) == written(writer.ends, name), "all is read")


def test_partitions_that_come_later(
    connector: Connectors, broker: EmbeddedBroker, writer: Writer, topic: str
) -> None:
    one = connector()
    reader = member(one, topic)
    fill(writer, topic, 5)
    grow(broker, topic, 6)
    fill(writer, topic, 5, partitions=6)
    wait_for(lambda: set(reader.seen) == written(writer.ends, topic), "all is read")
    assert one.metrics().owned_partitions == 6


@pytest.mark.parametrize("kind", [Whitelist, Blacklist])
def test_topics_by_a_filter(
    connector: Connectors, broker: EmbeddedBroker, writer: Writer, name: str, kind: type[Whitelist]
) -> None:
    broker.create_topic(f"{name}-a", 2)
    broker.create_topic(f"{name}-other", 1)
    wanted = f"{name}-[ab]" if kind is Whitelist else f"(?!{name}-[ab]).*"
    one = connector()
    reader = Reader(one.create_message_streams_by_filter(kind(wanted), 2))
    broker.create_topic(f"{name}-b", 2)
    for topic in (f"{name}-a", f"{name}-b"):
        fill(writer, topic, 5, partitions=2)
    fill(writer, f"{name}-other", 5, partitions=1)
    expected = written(writer.ends, f"{name}-a") | written(writer.ends, f"{name}-b")
    wait_for(lambda: set(reader.seen) == expected, "all that is allowed is read")


def test_brokers_that_come_later(connect: str, tmp_path: Path) -> None:
    where = connect + "/later"
    properties = {"group.id": "g", "zookeeper.connect": where, "auto.offset.reset": "smallest"}
    with ConsumerConnector(properties, zookeeper_connection_timeout_ms=30_000) as one:
        reader = member(one, "orders")
        with (
            EmbeddedBroker(properties=registered_at(where)) as broker,
            Writer(broker.bootstrap) as writer,
        ):
            broker.create_topic("orders", 1)
            writer.write(TopicAndPartition("orders", 0), 3)
            wait_for(lambda: len(reader.seen) == 3, "all is read")
            one.shutdown()
    reader.join()


# --- several members


def test_members_share_partitions_and_each_message_goes_to_one_of_them(
    connector: Connectors, writer: Writer, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    """Members that come and go in good order: nothing twice, nothing left out."""
    fill(writer, topic, 40)
    one, two = connector(consumer_id="one"), connector(consumer_id="two")
    readers = [member(one, topic)]
    wait_for(lambda: one.metrics().owned_partitions == 4, "the first has all")
    readers.append(member(two, topic, streams=2))
    wait_for(
        lambda: (
            owners(zookeeper, name, topic)
            == {0: f"{name}_one-0", 1: f"{name}_one-0", 2: f"{name}_two-0", 3: f"{name}_two-1"}
        ),
        "they share",
    )
    fill(writer, topic, 40)
    wait_for(lambda: set(seen_by(readers)) == written(writer.ends, topic), "all is read")
    one.shutdown()
    wait_for(lambda: two.metrics().owned_partitions == 4, "the second has all")
    fill(writer, topic, 40)
    wait_for(lambda: set(seen_by(readers)) == written(writer.ends, topic), "all is read")
    two.shutdown()
    for reader in readers:
        reader.join()
    assert set(seen_by(readers).values()) == {1}
    assert offsets(zookeeper, name, topic) == dict.fromkeys(range(4), 120)


def test_a_partition_that_stays_is_not_touched(
    connector: Connectors, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    """Its owner node is the same as before, so nobody's fetching was interrupted for it."""
    member(connector(consumer_id="a"), topic)
    before = zookeeper.get(paths.owner(name, topic, 0)).stat.created_zxid
    second = connector(consumer_id="b")
    member(second, topic)
    wait_for(lambda: second.metrics().owned_partitions == 2, "they share")
    assert zookeeper.get(paths.owner(name, topic, 0)).stat.created_zxid == before


class Notes:
    """A rebalance listener."""

    def __init__(self) -> None:
        self.released: list[dict[str, set[int]]] = []
        self.started: list[tuple[str, dict[str, dict[int, ConsumerThreadId]]]] = []
        self.raises = False

    def before_releasing_partitions(self, partition_ownership: dict[str, set[int]]) -> None:
        self.released.append(partition_ownership)

    def before_starting_fetchers(
        self, consumer_id: str, partition_assignment: dict[str, dict[int, ConsumerThreadId]]
    ) -> None:
        if self.raises:
            raise RuntimeError("not now")
        self.started.append((consumer_id, partition_assignment))


def test_a_listener_is_told(connector: Connectors, topic: str, name: str) -> None:
    notes = Notes()
    one = connector(consumer_id="a")
    one.set_consumer_rebalance_listener(notes)
    member(one, topic)
    everything = {topic: {number: ConsumerThreadId(f"{name}_a", 0) for number in range(4)}}
    assert notes.started == [(f"{name}_a", everything)]
    with pytest.raises(MessageStreamsExist):
        one.set_consumer_rebalance_listener(notes)
    other = connector(consumer_id="b")
    member(other, topic)
    assert notes.released == [{topic: {2, 3}}]


def test_a_listener_that_raises_fails_the_attempt_and_not_the_member(
    connector: Connectors, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    notes = Notes()
    notes.raises = True
    one = connector(rebalance_backoff_ms=1100)
    one.set_consumer_rebalance_listener(notes)
    maker = threading.Thread(target=member, args=(one, topic))
    maker.start()
    wait_for(lambda: one.health is Health.DEGRADED, "it is degraded")
    maker.join()
    assert "not now" in caplog.text
    notes.raises = False
    wait_for(lambda: one.health is Health.STABLE, "it has recovered")
    assert one.metrics().owned_partitions == 4


def test_by_policy_a_member_that_cannot_rebalance_leaves_and_raises(
    connector: Connectors, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    """Somebody holds a partition for ever."""
    zookeeper.create_with_parents(paths.owner(name, topic, 1), b"g_somebody-0")
    one = connector(consumer_id="a", rebalance_failure_policy="raise", rebalance_backoff_ms=1100)
    with pytest.raises(ConsumerRebalanceFailed, match="/1 is held by g_somebody-0"):
        one.create_message_streams({topic: 1})
    assert zookeeper.children(paths.consumer_ids(name)) == ()


# --- streams and threads


def test_run_reads_each_stream_in_a_thread(connector: Connectors, writer: Writer, topic: str) -> None:
    fill(writer, topic, 10)
    one = connector()
    streams = one.create_message_streams({topic: 4})[topic]
    seen: list[int] = []

    def consume(stream: object) -> None:
        for message in stream:  # type: ignore[attr-defined]
            seen.append(message.partition)
            if len(seen) == 40:
                one.shutdown()

    one.run(consume, streams)
    assert sorted(seen) == sorted([*range(4)] * 10)


def test_the_first_error_stops_all(connector: Connectors, writer: Writer, topic: str) -> None:
    fill(writer, topic, 1, partitions=1)
    one = connector()
    streams = one.create_message_streams({topic: 3})[topic]

    def consume(stream: object) -> None:
        for _ in stream:  # type: ignore[attr-defined]
            raise LookupError("a fault of the application")

    with pytest.raises(LookupError, match="a fault of the application"):
        one.run(consume, streams)
    assert one.health is Health.CLOSED


def test_shutdown_twice_and_before_anything(connector: Connectors, topic: str) -> None:
    one = connector()
    one.shutdown()
    one.shutdown()
    two = connector()
    (stream,) = two.create_message_streams({topic: 1})[topic]
    two.shutdown()
    two.shutdown()
    assert list(stream) == []
    with pytest.raises(ZooKeeperConnectionLost):
        two.commit_offsets()


def test_streams_are_created_once(connector: Connectors, topic: str) -> None:
    one = connector()
    one.create_message_streams({topic: 1})
    with pytest.raises(MessageStreamsExist):
        one.create_message_streams_by_filter(Whitelist(".*"))


# --- what is broken


def test_broken_nodes_cost_a_line_each_and_not_the_group(
    connector: Connectors,
    writer: Writer,
    topic: str,
    name: str,
    zookeeper: KazooZooKeeperSession,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    nodes = {
        paths.consumer(name, "json"): b"{",
        paths.consumer(name, "version"): b'{"version":9,"subscription":{"a":1},"pattern":"static"}',
        paths.consumer(name, "field"): b'{"version":1,"subscription":{"a":1}}',
        paths.consumer(name, "regex"): b'{"version":1,"subscription":{"(":1},"pattern":"white_list"}',
        paths.consumer(name, "streams"): b'{"version":1,"subscription":{"a":2000000000},"pattern":"static"}',
    }
    for path, data in nodes.items():
        zookeeper.create_with_parents(path, data, CreateMode.EPHEMERAL)
    offset = paths.offset(name, topic, 1)
    zookeeper.create_with_parents(offset, b"seventeen")
    fill(writer, topic, 5)
    one = connector()
    reader = member(one, topic)
    wait_for(lambda: set(reader.seen) == written(writer.ends, topic), "all is read")
    zookeeper.create(paths.consumer(name, "more"), b"?", CreateMode.EPHEMERAL)
    wait_for(lambda: paths.consumer(name, "more") in caplog.text, "the new one is named")
    lines = [
        record.getMessage() for record in caplog.records if record.name.startswith("ottla.consumer.classic")
    ]
    for path in (*nodes, offset):
        assert len([line for line in lines if path in line]) == 1, path


def test_a_broken_topic_is_a_topic_without_partitions(
    connector: Connectors, topic: str, zookeeper: KazooZooKeeperSession, caplog: pytest.LogCaptureFixture
) -> None:
    broken = topic + "-broken"
    zookeeper.create(paths.topic(broken), b"no json")
    one = connector()
    one.create_message_streams({topic: 1, broken: 1})
    assert one.metrics().owned_partitions == 4
    assert paths.topic(broken) in caplog.text
    zookeeper.delete(paths.topic(broken))


def test_a_foreign_node_among_the_topics_is_no_topic(
    connector: Connectors, topic: str, zookeeper: KazooZooKeeperSession, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = f"{paths.TOPICS}/{topic} (copy)"
    zookeeper.create(foreign, b"")
    one = connector()
    one.create_message_streams_by_filter(Whitelist(f"{topic}.*"))
    assert one.health is Health.STABLE
    assert one.metrics().owned_partitions == 4
    assert len([record for record in caplog.records if foreign in record.getMessage()]) == 1
    zookeeper.delete(foreign)


# --- settings


def test_attempts_must_outlast_a_session(connector: Connectors, topic: str) -> None:
    one = connector(rebalance_max_retries=2, rebalance_backoff_ms=1000)
    arithmetic = r"=2 \* .*=1000 = 2000 ms is not above .* 4000 ms .* to 2001 or more"
    with pytest.raises(ConfigError, match=arithmetic):
        one.create_message_streams({topic: 1})


def test_nothing_is_connected_before_streams_are_created() -> None:
    with ConsumerConnector(group_id="g", zookeeper_connect="127.0.0.1:1") as one:
        assert one.health is Health.JOINING
    with (
        ConsumerConnector(
            group_id="g", zookeeper_connect="127.0.0.1:1", zookeeper_connection_timeout_ms=100
        ) as one,
        pytest.raises(ZooKeeperConnectionLost, match=r"127\.0\.0\.1:1"),
    ):
        one.create_message_streams({"orders": 1})

"""Sessions that end, a ZooKeeper that goes away, bad lines to it, processes that are stopped and killed."""

from __future__ import annotations

import itertools
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from ottla import EmbeddedBroker
from ottla.consumer.classic import ConsumerConnector, Health
from ottla.consumer.classic.topic_count import StaticTopicCount
from ottla.model.errors import ConsumerTimeout
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import encode_registration
from ottla.zookeeper.kazoo_session import KazooZooKeeperSession
from ottla.zookeeper.server import ServerSettings, ZooKeeperServer
from ottla.zookeeper.session import CreateMode
from ottla.zookeeper.zookeeper_errors import SessionLost, ZooKeeperConnectionLost
from tests.consumer.classic.conftest import QUICK, Connectors, registered_at
from tests.consumer.classic.process_member import ProcessMember
from tests.consumer.classic.reading import Reader, member, offsets, owners, seen_by, written
from tests.faulty_line import FaultyLine
from tests.fetching.traffic import Writer
from tests.scale import kills, seeded
from tests.waiting import wait_for

FAULTS = kills(20, 1000)
KINDS = ["expire"] * 6 + ["leave"] * 4 + ["line"] * 3 + ["stop", "kill", "zookeeper"]
UNOWNED_MAX_S = 30.0
"""Behind the last fault, a partition without an owner after this is what churn must not do."""


def expire(connector: ConsumerConnector, server: ZooKeeperServer) -> None:
    """End its session: whoever has id and password can take it over, and say goodbye."""
    try:
        credentials = connector._membership._connections.session.credentials
    except (ZooKeeperConnectionLost, SessionLost):
        return  # it is between two sessions
    thief = KazooClient(hosts=server.connect, client_id=credentials)
    thief.start(30)
    thief.stop()
    thief.close()


def fill(writer: Writer, topic: str, count: int) -> None:
    for partition in range(4):
        writer.write(TopicAndPartition(topic, partition), count)


Processes = Callable[..., ProcessMember]


@pytest.fixture
def process(connect: str, name: str, topic: str) -> Iterator[Processes]:
    """Starts members of the test's group by their consumer.id; all end with the test."""
    with ExitStack() as stack:

        def start(consumer_id: str, through: str = connect) -> ProcessMember:
            one = ProcessMember(through, name, consumer_id, topic)
            stack.callback(one.kill)
            return one

        yield start


def test_a_lost_session_is_followed_by_a_new_one(
    connector: Connectors,
    writer: Writer,
    topic: str,
    name: str,
    zookeeper: KazooZooKeeperSession,
    zookeeper_server: ZooKeeperServer,
) -> None:
    fill(writer, topic, 10)
    one = connector(consumer_id="one")
    reader = member(one, topic)
    wait_for(lambda: set(reader.seen) == written(writer.ends, topic), "all is read")
    before = zookeeper.get(paths.owner(name, topic, 0)).stat.ephemeral_owner
    expire(one, zookeeper_server)
    wait_for(lambda: one.metrics().lost_sessions == 1, "the session is lost")
    wait_for(lambda: one.health is Health.STABLE and len(owners(zookeeper, name, topic)) == 4, "it is back")
    assert zookeeper.get(paths.owner(name, topic, 0)).stat.ephemeral_owner != before
    fill(writer, topic, 10)
    wait_for(lambda: set(reader.seen) == written(writer.ends, topic), "all is read")


def test_without_zookeeper_nothing_is_handed_out_or_committed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SUSPENDED: whether the partitions are ours is not known, so that others may have them."""
    caplog.set_level(logging.WARNING)
    with (
        ZooKeeperServer(tmp_path, settings=ServerSettings(tick_ms=200, fsync=False)) as server,
        EmbeddedBroker(properties=registered_at(server.connect)) as broker,
        Writer(broker.bootstrap) as writer,
    ):
        broker.create_topic("t", 4)
        fill(writer, "t", 100)
        given = {**QUICK, "zookeeper_connect": server.connect, "group_id": "g", "consumer_timeout_ms": 1000}
        with ConsumerConnector({**given, "auto_commit_interval_ms": 10}) as one:
            (stream,) = one.create_message_streams({"t": 1})["t"]
            got = [next(stream) for _ in range(10)]
            server.stop()
            wait_for(lambda: one.health is Health.SUSPENDED, "it knows")
            with pytest.raises(ConsumerTimeout):
                next(stream)
            with pytest.raises(ZooKeeperConnectionLost, match="nothing was committed"):
                one.commit_offsets()
            # A hundred commits have failed in this second: at growing intervals one is told.
            told = [row.getMessage() for row in caplog.records if row.levelno >= logging.WARNING]
            cut = f"at {server.connect} is cut; it is tried again"
            assert sum(cut in text for text in told) == 2  # of the member's session, and of the broker's
            assert 1 < sum("not committed" in text for text in told) < 14
            assert not [row.name for row in caplog.records if row.name.startswith("kazoo")]
            server.start()
            wait_for(lambda: one.health is Health.STABLE, "it is back")
            while len({(row.partition, row.offset) for row in got}) < 400:
                got.append(next(stream))
            one.commit_offsets()


def test_a_node_that_somebody_deleted_is_claimed_again(
    connector: Connectors, writer: Writer, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    """As Kafka's own consumer may do after it lost a session."""
    one = connector()
    reader = member(one, topic)
    zookeeper.delete(paths.owner(name, topic, 2))
    wait_for(lambda: len(owners(zookeeper, name, topic)) == 4, "the node is back")
    zookeeper.delete(paths.consumer(name, one.consumer_id))
    wait_for(lambda: zookeeper.exists(paths.consumer(name, one.consumer_id)), "the registration is back")
    fill(writer, topic, 5)
    wait_for(lambda: set(reader.seen) == written(writer.ends, topic), "all is read")


def test_a_zombie_in_the_group_is_named_and_roused(
    connector: Connectors,
    topic: str,
    name: str,
    zookeeper: KazooZooKeeperSession,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A member that is registered and claims nothing: its partitions are nobody's, and that is said."""
    zombie = paths.consumer(name, f"{name}_zombie")
    data = encode_registration(StaticTopicCount({topic: 1}).registration(0))
    zookeeper.create_with_parents(zombie, data, CreateMode.EPHEMERAL)
    roused = threading.Event()
    zookeeper.children(paths.consumer_ids(name), lambda _: roused.set())
    one = connector(consumer_id="a")
    member(one, topic)
    assert one.metrics().owned_partitions == 2
    wait_for(lambda: roused.is_set(), "the registration came")
    roused.clear()
    zookeeper.children(paths.consumer_ids(name), lambda _: roused.set())
    wait_for(lambda: one.health is Health.DEGRADED, "it is said")
    wait_for(lambda: roused.is_set(), "the group is roused")
    said = [record.getMessage() for record in caplog.records if "DEGRADED" in record.getMessage()]
    assert said.count(f"[{name}_a] DEGRADED: nobody reads 2 partitions: {topic}-2, {topic}-3") == 1
    assert one.metrics().degradations == len(said)
    zookeeper.delete(zombie)
    wait_for(lambda: one.metrics().owned_partitions == 4 and one.health is Health.STABLE, "all is ours")


def test_a_process_that_is_killed_and_comes_back_at_once_under_the_same_name(
    process: Processes, writer: Writer, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    """Its own former registration stands in its way until the session is over."""
    fill(writer, topic, 10)
    first = process("same")
    first.wait_ready()
    first.kill()
    second = process("same")
    second.wait_ready()
    fill(writer, topic, 10)
    wait_for(lambda: set(first.seen + second.seen) == written(writer.ends, topic), "all is read")
    assert len(owners(zookeeper, name, topic)) == 4


def test_ctrl_c_ends_a_member_in_good_order(
    process: Processes, writer: Writer, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    """It waits for a message: it commits, gives its partitions back and leaves."""
    fill(writer, topic, 10)
    one = process("a")
    wait_for(lambda: set(one.seen) == written(writer.ends, topic), "all is read")
    one.send(signal.SIGINT)
    assert one.process.wait(60) == -signal.SIGINT
    assert owners(zookeeper, name, topic) == {}
    assert zookeeper.children(paths.consumer_ids(name)) == ()
    assert offsets(zookeeper, name, topic) == dict.fromkeys(range(4), 10)


def test_a_process_that_was_stopped_hands_out_nothing_that_is_others(
    process: Processes,
    connector: Connectors,
    writer: Writer,
    topic: str,
    name: str,
    zookeeper: KazooZooKeeperSession,
) -> None:
    """It wakes with messages in its hands, of partitions that were given to another meanwhile."""
    stopped = process("a")
    stopped.wait_ready()
    other = connector(consumer_id="b")
    reader = member(other, topic)
    wait_for(lambda: other.metrics().owned_partitions == 2, "they share")
    fill(writer, topic, 10)
    wait_for(lambda: set(stopped.seen + reader.seen) == written(writer.ends, topic), "all is read")
    wait_for(lambda: offsets(zookeeper, name, topic) == dict.fromkeys(range(4), 10), "all is committed")
    stopped.send(signal.SIGSTOP)
    fill(writer, topic, 10)
    wait_for(lambda: other.metrics().owned_partitions == 4, "the other has all")
    wait_for(lambda: set(stopped.seen + reader.seen) == written(writer.ends, topic), "all is read")
    stopped.send(signal.SIGCONT)
    wait_for(lambda: other.metrics().owned_partitions == 2, "they share again")
    assert set((stopped.seen + reader.seen).values()) == {1}


# --- at random


def is_owned(zookeeper: KazooZooKeeperSession, group: str, topic: str) -> bool:
    """Whether every partition has an owner."""
    try:
        return len(owners(zookeeper, group, topic)) == 4
    except (ZooKeeperConnectionLost, SessionLost):
        return False  # a fault cut the test's own session too


@pytest.mark.timeout(300 + 20 * FAULTS)
def test_churn(
    process: Processes,
    connect: str,
    writer: Writer,
    topic: str,
    name: str,
    zookeeper: KazooZooKeeperSession,
    zookeeper_server: ZooKeeperServer,
) -> None:
    """FAULTS of them: nothing is lost, and no partition is unowned when they are over."""
    chance = seeded("churn")
    numbers = itertools.count()
    readers: list[Reader] = []
    with ExitStack() as stack:
        line = stack.enter_context(FaultyLine(zookeeper_server.connect))
        through = connect.replace(zookeeper_server.connect, line.address)

        def join() -> ConsumerConnector:
            own = {"zookeeper_connect": through, "group_id": name, "consumer_id": f"t{next(numbers)}"}
            given = {**QUICK, **own}
            one = stack.enter_context(ConsumerConnector(given))
            readers.append(member(one, topic, streams=chance.choice([1, 2])))
            return one

        connectors = [join(), join()]
        processes = [process("p0", through)]
        for fault in range(FAULTS):
            fill(writer, topic, 20)
            line.mend()
            what = chance.choice(KINDS)
            if what == "expire":
                expire(chance.choice(connectors), zookeeper_server)
            elif what == "leave":
                connectors.pop(chance.randrange(len(connectors))).shutdown()
                connectors.append(join())
            elif what == "line":
                line.spoil(chance, cut_within=400, bytes_per_s=2_000)
            elif what == "zookeeper":
                zookeeper_server.stop()
                zookeeper_server.start()
            else:
                processes[-1].send(signal.SIGSTOP)
                time.sleep(chance.uniform(0.1, 6.0) if what == "stop" else 0.0)
                processes[-1].send(signal.SIGCONT)
                if what == "kill":
                    processes[-1].kill()
                    processes.append(process(f"p{fault % 2}", through))
            time.sleep(chance.uniform(0, 0.5))
        line.mend()
        fill(writer, topic, 20)

        def seen() -> set[tuple[str, int, int]]:
            total = seen_by(readers)
            for one in processes:
                total += one.seen
            return set(total)

        wait_for(lambda: is_owned(zookeeper, name, topic), "every partition has an owner", UNOWNED_MAX_S)
        wait_for(lambda: seen() == written(writer.ends, topic), "nothing is lost")
        wait_for(lambda: all(one.health is Health.STABLE for one in connectors), "everybody is content")

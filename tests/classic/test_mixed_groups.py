"""Kafka 0.9.0.1's own consumers and ours in one group, on Apache Kafka 0.9.0.1 and on a broker of ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from ottla import EmbeddedBroker
from ottla.classic import ConsumerConnector
from ottla.client.config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.fetching import TopicAndPartition
from ottla.records.messages import Message, MessageSet
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.server import ZooKeeperServer
from tests.broker.registration.kafka_commands import run
from tests.classic.conftest import registered_at
from tests.classic.reading import Reader, offsets, owners, wait_for
from tests.classic.scala_consumer import ScalaConsumer
from tests.fetching.real_traffic import client, is_written
from tests.fetching.traffic import until
from tools.peers import KAFKA_0_9, RealKafka, Unavailable, kafka_libs

PARTITIONS = 8


@pytest.fixture(scope="module")
def libs() -> Path:
    try:
        return kafka_libs(KAFKA_0_9)
    except Unavailable as missing:
        pytest.skip(f"Kafka {KAFKA_0_9} is not here: {missing}")


@dataclass(frozen=True)
class Cluster:
    """Where the group's topics are, and how we write to them and read."""

    zookeeper: str
    client: ClientConfig
    magic: int
    settings: Mapping[str, str]


@contextmanager
def apache_kafka() -> Iterator[Cluster]:
    """0.9.0.1 cannot tell its versions, so they are pinned."""
    try:
        with RealKafka(KAFKA_0_9, properties={"num.partitions": str(PARTITIONS)}) as one:
            yield Cluster(one.zookeeper, client(one), 0, {"broker_version": "0.9"})
    except Unavailable as error:
        pytest.skip(f"Kafka {KAFKA_0_9} cannot be run here: {error}")


@contextmanager
def ottla_broker(server: ZooKeeperServer) -> Iterator[Cluster]:
    where = f"{server.connect}/mixed"
    with EmbeddedBroker(properties={**registered_at(where), "num.partitions": str(PARTITIONS)}) as one:
        config = ClientConfig.from_properties({"bootstrap.servers": one.bootstrap})
        yield Cluster(where, config, 2, {})


@pytest.fixture(scope="module", params=["Apache Kafka", "ottla"])
def cluster(
    request: pytest.FixtureRequest, libs: Path, zookeeper_server: ZooKeeperServer
) -> Iterator[Cluster]:
    with apache_kafka() if request.param == "Apache Kafka" else ottla_broker(zookeeper_server) as one:
        yield one


@pytest.fixture
def zookeeper(cluster: Cluster) -> Iterator[KazooZooKeeperSession]:
    with KazooZooKeeperSession(KazooSettings(cluster.zookeeper, connection_timeout_ms=30_000)) as session:
        yield session


class Group:
    """A topic and a group of the test's own, and what its members have seen."""

    def __init__(self, cluster: Cluster, libs: Path, work: Path, name: str, stack: ExitStack) -> None:
        self.name = name
        self.written = 0
        self.connectors: dict[str, ConsumerConnector] = {}
        self.readers: list[Values] = []
        self.consoles: dict[str, ScalaConsumer] = {}
        self._cluster, self._libs, self._work, self._stack = cluster, libs, work, stack

    def write(self, count: int) -> None:
        """So many messages in each partition; each has a value of its own."""
        config = self._cluster.client
        with ClusterMetadata(config) as metadata:
            places = [TopicAndPartition(self.name, one.index) for one in metadata.partitions(self.name)]
            assert len(places) == PARTITIONS
            for place in places:
                rows = [Message(f"{place.partition}-{self.written + row}".encode()) for row in range(count)]
                data = bytes(MessageSet.of(rows, magic=self._cluster.magic).data)
                until(partial(is_written, metadata, config, place, data, self.written))
        self.written += count

    def join(self, name: str) -> ConsumerConnector:
        """One of ours."""
        one = self._stack.enter_context(
            ConsumerConnector(
                group_id=self.name,
                consumer_id=name,
                zookeeper_connect=self._cluster.zookeeper,
                auto_offset_reset="smallest",
                zookeeper_session_timeout_ms=4000,
                zookeeper_connection_timeout_ms=30_000,
                rebalance_backoff_ms=2000,
                auto_commit_interval_ms=300,
                **self._cluster.settings,
            )
        )
        self.connectors[name] = one
        self.readers.append(Values(one.create_message_streams({self.name: 1})[self.name]))
        return one

    def join_scala(self, name: str) -> ScalaConsumer:
        """One of Kafka's."""
        one = ScalaConsumer(
            self._libs,
            self._work,
            zookeeper=self._cluster.zookeeper,
            group=self.name,
            topic=self.name,
            name=name,
        )
        self.consoles[name] = self._stack.enter_context(one)
        return one

    def seen(self) -> Counter[str]:
        """By all members."""
        total: Counter[str] = Counter()
        for one in (*self.readers, *self.consoles.values()):
            total += one.seen
        return total

    def expected(self) -> set[str]:
        return {f"{partition}-{row}" for partition in range(PARTITIONS) for row in range(self.written)}


class Values(Reader):
    """Counts values instead of places."""

    seen: Counter[str]  # type: ignore[assignment]

    def _read(self, stream: object) -> None:
        try:
            for message in stream:  # type: ignore[attr-defined]
                with self._lock:
                    self.seen[message.value.decode()] += 1
        except BaseException as error:  # noqa: BLE001  (shown by the test)
            self.errors.append(error)


@pytest.fixture
def group(cluster: Cluster, libs: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Group]:
    name = re.sub(r"[^A-Za-z0-9-]+", "-", request.node.name)[:60]
    with ExitStack() as stack:
        yield Group(cluster, libs, tmp_path, name, stack)


def shares(zookeeper: KazooZooKeeperSession, group: Group) -> Counter[str]:
    """Member → number of partitions that it owns."""
    prefix = f"{group.name}_"
    found = owners(zookeeper, group.name, group.name).values()
    return Counter(owner.removeprefix(prefix).rpartition("-")[0] for owner in found)


def test_two_of_each_kind_share_a_topic_as_they_come_and_go(
    group: Group, zookeeper: KazooZooKeeperSession, libs: Path, cluster: Cluster
) -> None:
    def shared(**expected: int) -> Callable[[], bool]:
        return lambda: shares(zookeeper, group) == expected

    group.write(20)
    group.join("a")
    group.join_scala("b")
    wait_for(shared(a=4, b=4), "one of each kind shares")
    group.join("c")
    group.join_scala("d")
    wait_for(shared(a=2, b=2, c=2, d=2), "two of each kind share")
    group.write(20)
    wait_for(lambda: set(group.seen()) == group.expected(), "all is read")
    group.consoles["b"].stop()
    wait_for(lambda: sorted(shares(zookeeper, group).values()) == [2, 3, 3], "b left")
    group.connectors["c"].shutdown()
    wait_for(shared(a=4, d=4), "c left")
    group.write(20)
    wait_for(lambda: set(group.seen()) == group.expected(), "all is read")
    told = run(
        libs, "kafka.tools.ConsumerOffsetChecker", "--zookeeper", cluster.zookeeper, "--group", group.name
    )
    assert told.count(f"{group.name}_a-0") == 4
    assert told.count(f"{group.name}_d-0") == 4
    where = ("--zookeeper", cluster.zookeeper, "--group", group.name)
    told = run(libs, "kafka.admin.ConsumerGroupCommand", "--describe", *where)
    assert told.count(f"{group.name}_a-0") == 4
    told = run(
        libs, "kafka.tools.VerifyConsumerRebalance", "--zookeeper.connect", cluster.zookeeper, *where[2:]
    )
    assert "No owner" not in told
    # 0.9 compares owners, which are texts, with members, which are not: it finds none valid, of either kind.
    assert told.count("is not a valid member") == PARTITIONS
    group.connectors["a"].shutdown()
    group.consoles["d"].stop()
    assert offsets(zookeeper, group.name, group.name) == dict.fromkeys(range(PARTITIONS), 60)
    twice = {value: count for value, count in group.seen().items() if count > 1}
    assert not twice, "all came and went in good order"


def test_members_of_both_kinds_are_killed(group: Group, zookeeper: KazooZooKeeperSession) -> None:
    group.write(10)
    one = group.join("a")
    group.join_scala("b")
    wait_for(lambda: shares(zookeeper, group) == {"a": 4, "b": 4}, "they share")
    group.consoles["b"].kill()
    wait_for(lambda: shares(zookeeper, group) == {"a": 8}, "ours has all, after the session timeout")
    group.write(10)
    wait_for(lambda: set(group.seen()) == group.expected(), "all is read")
    assert one.metrics().degradations == 0


def test_each_kind_goes_on_where_the_other_stopped(group: Group, zookeeper: KazooZooKeeperSession) -> None:
    group.write(10)
    one = group.join("a")
    wait_for(lambda: set(group.seen()) == group.expected(), "ours has read all")
    one.shutdown()
    group.write(10)
    console = group.join_scala("b")
    wait_for(lambda: set(group.seen()) == group.expected(), "Kafka's has read the rest")
    console.stop()
    group.write(10)
    group.join("c")
    wait_for(lambda: set(group.seen()) == group.expected(), "ours has read the rest")
    assert set(group.seen().values()) == {1}

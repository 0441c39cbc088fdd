"""Kafka 0.9.0.1's own consumers and ours in one group, on Apache Kafka 0.9.0.1 and on a broker of ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker
from ottla.admin import GroupKind, NewTopic
from ottla.client.client_config import ClientConfig
from ottla.consumer.classic import Whitelist
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.server import ZooKeeperServer
from tests.broker.registration.kafka_commands import run
from tests.consumer.classic.conftest import registered_at
from tests.consumer.classic.mixed_group import (
    ALL,
    IN_BOTH,
    IN_KAFKA,
    IN_ZOOKEEPER,
    PARTITIONS,
    Cluster,
    Group,
)
from tests.consumer.classic.naive_assignors import java_hash
from tests.consumer.classic.reading import offsets, owners
from tests.fetching.real_traffic import client
from tests.naming import name_after_test
from tests.scale import nightly
from tests.waiting import wait_for
from tools.peers import KAFKA_0_8, KAFKA_0_9, RealKafka, Unavailable, kafka_libs


@pytest.fixture(scope="module")
def libs() -> Path:
    try:
        return kafka_libs(KAFKA_0_9)
    except Unavailable as missing:
        pytest.skip(f"Kafka {KAFKA_0_9} is not here: {missing}")


@contextmanager
def apache_kafka() -> Iterator[Cluster]:
    """0.9.0.1 cannot tell its versions, so they are pinned."""
    properties = {"num.partitions": str(PARTITIONS), "offsets.topic.num.partitions": "4"}
    try:
        with RealKafka(KAFKA_0_9, properties=properties) as one:
            yield Cluster(one.zookeeper, client(one), 0, {"broker.version": "0.9"})
    except Unavailable as error:
        pytest.skip(f"Kafka {KAFKA_0_9} cannot be run here: {error}")


@contextmanager
def ottla_broker(server: ZooKeeperServer) -> Iterator[Cluster]:
    where = f"{server.connect}/mixed"
    with EmbeddedBroker(properties={**registered_at(where), "num.partitions": str(PARTITIONS)}) as one:
        config = ClientConfig.from_properties({"bootstrap.servers": one.bootstrap})
        yield Cluster(where, config, 2, {})


SELDOM_ON_KAFKA = pytest.mark.parametrize(
    "cluster",
    [
        pytest.param("Apache Kafka", marks=nightly("the first test runs on Kafka")),
        "ottla",
    ],
    indirect=True,
)


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


@pytest.fixture
def group(cluster: Cluster, libs: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Group]:
    name = name_after_test(request)[:150]
    with ExitStack() as stack:
        yield Group(cluster, libs, tmp_path, name, stack)


def addresses(cluster: Cluster) -> dict[str, Any]:
    """For Admin."""
    bootstrap = ",".join(map(str, cluster.client.bootstrap))
    found = {"bootstrap_servers": bootstrap, "zookeeper_connect": cluster.zookeeper}
    return found | {name.replace(".", "_"): value for name, value in cluster.settings.items()}


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
    wait_for(group.has_all, "all is read")
    group.consoles["b"].stop()
    wait_for(lambda: sorted(shares(zookeeper, group).values()) == [2, 3, 3], "b left")
    group.connectors["c"].shutdown()
    wait_for(shared(a=4, d=4), "c left")
    group.write(20)
    wait_for(group.has_all, "all is read")
    told = run(
        libs,
        "kafka.tools.VerifyConsumerRebalance",
        "--zookeeper.connect",
        cluster.zookeeper,
        "--group",
        group.name,
    )
    assert "No owner" not in told
    # 0.9 compares owners, which are texts, with members, which are not: it finds none valid, of either kind.
    assert told.count("is not a valid member") == PARTITIONS
    group.connectors["a"].shutdown()
    group.consoles["d"].stop()
    assert offsets(zookeeper, group.name, group.name) == group.ends
    twice = {value: count for value, count in group.seen().items() if count > 1}
    assert not twice, "all came and went in good order"


@SELDOM_ON_KAFKA
def test_partitions_are_dealt_out_as_kafka_0_8_and_0_9_deal_them(
    group: Group, zookeeper: KazooZooKeeperSession, cluster: Cluster
) -> None:
    """Round-robin by the hash of a text: whoever has another order claims what others own.

    Ours subscribes by a regular expression with backslashes, which the others read out of its registration.
    """
    try:
        oldest = kafka_libs(KAFKA_0_8)
    except Unavailable as missing:
        pytest.skip(f"Kafka {KAFKA_0_8} is not here: {missing}")
    with Admin(**addresses(cluster)) as admin:
        admin.create_topics(NewTopic(group.name, 12, 1))
    dealt = {"partition.assignment.strategy": "roundrobin"}
    group.join("a", dealt, Whitelist(rf"{re.escape(group.name)}|other\.\d+"))
    group.join_scala("b", dealt)
    group.join_scala("c", dealt, libs=oldest)
    order = sorted(range(12), key=lambda number: java_hash(f"[{group.name},{number}]"))
    expected = {number: f"{group.name}_{'abc'[at % 3]}-0" for at, number in enumerate(order)}
    wait_for(lambda: owners(zookeeper, group.name, group.name) == expected, "all agree")


@SELDOM_ON_KAFKA
def test_members_of_both_kinds_are_killed(group: Group, zookeeper: KazooZooKeeperSession) -> None:
    """Each kind takes over what the other left, when ZooKeeper has given its session up."""
    group.write(10)
    ours = group.join_process("a")
    wait_for(group.has_all, "ours has read all")
    group.join_scala("b")
    wait_for(lambda: shares(zookeeper, group) == {"a": 4, "b": 4}, "they share")
    ours.send(SIGKILL)
    wait_for(lambda: shares(zookeeper, group) == {"b": 8}, "Kafka's has all")
    group.write(10)
    wait_for(group.has_all, "all is read")
    last = group.join("c")
    wait_for(lambda: shares(zookeeper, group) == {"b": 4, "c": 4}, "they share")
    group.consoles["b"].kill()
    wait_for(lambda: shares(zookeeper, group) == {"c": 8}, "ours has all")
    group.write(10)
    wait_for(group.has_all, "all is read")
    assert last.metrics().degradations == 0


def lag_as_kafka_tells_it(libs: Path, cluster: Cluster, group: str) -> list[dict[int, tuple[str, ...]]]:
    """Of both of its tools: partition → offset, end, lag, owner."""
    where = ("--zookeeper", cluster.zookeeper, "--group", group)
    rows = [
        run(libs, "kafka.tools.ConsumerOffsetChecker", *where),
        run(libs, "kafka.admin.ConsumerGroupCommand", "--describe", *where),
    ]
    return [
        {int(words[2]): tuple(words[3:]) for words in map(_words, told.splitlines()) if words[:1] == [group]}
        for told in rows
    ]


def _words(line: str) -> list[str]:
    return line.replace(",", " ").split()


@SELDOM_ON_KAFKA
@pytest.mark.parametrize("storage", [IN_ZOOKEEPER, IN_KAFKA], ids=["zookeeper", "kafka"])
def test_each_kind_goes_on_at_the_very_message_where_the_other_stopped(
    group: Group,
    zookeeper: KazooZooKeeperSession,
    libs: Path,
    cluster: Cluster,
    storage: Mapping[str, str],
) -> None:
    group.write(10)
    ours = group.join("a", {**storage, "auto.commit.enable": False})
    wait_for(group.has_all, "ours has read all")
    chosen = {number: number + 1 for number in ALL}
    ours.commit_offsets({TopicAndPartition(group.name, number): at for number, at in chosen.items()})
    expected = {number: (str(at), "10", str(10 - at), f"{group.name}_a-0") for number, at in chosen.items()}
    assert lag_as_kafka_tells_it(libs, cluster, group.name) == [expected, expected]
    with Admin(**addresses(cluster)) as admin:
        lag = admin.group_lag(group.name, kind=GroupKind.ZOOKEEPER)
    assert {
        one.topic_partition.partition: (str(one.committed), str(one.end), str(one.lag), one.owner)
        for one in lag.partitions
    } == expected
    ours.shutdown()
    assert (group.in_kafka() == chosen) == (storage is IN_KAFKA)
    assert (offsets(zookeeper, group.name, group.name) == chosen) == (storage is IN_ZOOKEEPER)
    left = {f"{number}-{row}" for number, at in chosen.items() for row in range(at, 10)}
    console = group.join_scala("b", storage, messages_max=20)
    console.wait()
    assert console.seen.total() == 20
    assert set(console.seen) < left, "Kafka's began where ours had committed"
    group.join("c", storage)
    rest = group.readers["c"].seen
    wait_for(lambda: set(console.seen + rest) == left, "ours has read the rest")
    assert set((console.seen + rest).values()) == {1}


@SELDOM_ON_KAFKA
def test_a_group_moves_from_zookeeper_to_kafka_member_by_member(
    group: Group, zookeeper: KazooZooKeeperSession
) -> None:
    """Both for a while, then Kafka alone: no message twice, none left out, also where nothing new came."""
    busy, idle = range(5), range(5, PARTITIONS)
    group.write(10)
    names = [("a", "b"), ("c", "d"), ("e", "f")]
    for storage, (first, second) in zip((IN_ZOOKEEPER, IN_BOTH, IN_KAFKA), names, strict=True):
        for name in (first, second):
            group.join(name, storage)
            leaver = {"c": "a", "d": "b", "e": "c", "f": "d"}.get(name)
            if leaver is not None:
                group.connectors[leaver].shutdown()
            group.write(3, busy)
            wait_for(group.has_all, f"all is read with {name}")
    in_zookeeper = offsets(zookeeper, group.name, group.name)
    assert {number: in_zookeeper[number] for number in idle} == dict.fromkeys(idle, 10)
    assert all(in_zookeeper[number] < group.ends[number] for number in busy), "it is left behind"
    group.connectors["e"].shutdown()
    group.join_scala("g", IN_KAFKA)
    wait_for(lambda: shares(zookeeper, group) == {"f": 4, "g": 4}, "Kafka's own takes part")
    group.connectors["f"].shutdown()
    group.write(3)
    wait_for(group.has_all, "all is read by Kafka's own")
    group.consoles["g"].stop()
    assert group.in_kafka() == group.ends
    assert offsets(zookeeper, group.name, group.name) == in_zookeeper
    assert set(group.seen().values()) == {1}

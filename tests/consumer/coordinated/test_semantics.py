"""What a group means, whoever decides about it: a coordinator, or ZooKeeper and the members themselves.

A record goes to one member of a group, and to every group. A group is one for the whole cluster, whatever its
members read. Who needs a group and names none gets one of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar

import pytest

from ottla import Admin, EmbeddedBroker, GroupConsumer, Producer
from ottla.admin import GroupKind
from ottla.consumer.classic import ConsumerConnector
from ottla.zookeeper.server import ZooKeeperServer
from tests.cli.kafka.conftest import ours
from tests.consumer.classic.conftest import QUICK, registered_at
from tests.consumer.classic.reading import Reader
from tests.naming import name_after_test
from tests.waiting import PATIENCE_S, wait_for

PARTITION_COUNT = 4
RECORD_COUNT = 400

Place = tuple[str, int, int]


class CoordinatorMember:
    """A GroupConsumer and the thread that polls it."""

    PROTOCOL: ClassVar[dict[str, Any]] = {"heartbeat_interval_ms": 50}

    def __init__(self, world: World, group: str, topics: Sequence[str]) -> None:
        self._consumer = GroupConsumer(
            topics,
            group_id=group,
            bootstrap_servers=world.broker.bootstrap,
            auto_offset_reset="smallest",
            fetch_wait_max_ms=50,
            **self.PROTOCOL,
        )
        self.seen: Counter[Place] = Counter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._stopping.is_set():
            chunk = self._consumer.poll(0.05)
            if chunk is not None:
                offsets = chunk.batch["offset"].to_pylist()
                self.seen.update((*chunk.topic_partition, offset) for offset in offsets)

    def close(self) -> None:
        """Leave the group; positions are committed."""
        self._stopping.set()
        self._thread.join()
        self._consumer.close()


class BrokerAssignedMember(CoordinatorMember):
    """One whose broker assigns, by ranges as the others do."""

    PROTOCOL: ClassVar[dict[str, Any]] = {"group_protocol": "consumer", "group_remote_assignor": "range"}


class ClassicMember:
    """A ConsumerConnector, and threads that read its streams."""

    def __init__(self, world: World, group: str, topics: Sequence[str]) -> None:
        self._connector = ConsumerConnector({"zookeeper_connect": world.connect, "group_id": group, **QUICK})
        streams = self._connector.create_message_streams(dict.fromkeys(topics, 1))
        self._reader = Reader(one for some in streams.values() for one in some)

    @property
    def seen(self) -> Counter[Place]:
        """Every record by its place."""
        return self._reader.seen

    def close(self) -> None:
        """Leave the group; positions are committed."""
        self._connector.shutdown()
        self._reader.join()


Member = CoordinatorMember | ClassicMember
Members = Callable[[str, Sequence[str]], Member]
MEMBERS: dict[str, tuple[GroupKind, type[Member]]] = {
    "classic": (GroupKind.KAFKA, CoordinatorMember),
    "consumer": (GroupKind.KAFKA, BrokerAssignedMember),
    "zookeeper": (GroupKind.ZOOKEEPER, ClassicMember),
}


class World:
    """A broker that is registered in ZooKeeper."""

    def __init__(self, broker: EmbeddedBroker, connect: str, admin: Admin) -> None:
        self.broker = broker
        self.connect = connect
        self.admin = admin

    def write(self, topic: str) -> set[Place]:
        """Records into all partitions of a topic; where they are."""
        with Producer(bootstrap_servers=self.broker.bootstrap) as producer:
            for number in range(RECORD_COUNT):
                producer.send(topic, b"%d" % number, partition=number % PARTITION_COUNT)
        return {
            (topic, number % PARTITION_COUNT, number // PARTITION_COUNT) for number in range(RECORD_COUNT)
        }

    def shares(self, group: str, kind: GroupKind) -> list[dict[str, int]]:
        """How many partitions of each topic the members have, in no order."""
        if not any(one.group_id == group and one.kind is kind for one in self.admin.list_groups()):
            return []
        members = self.admin.describe_groups(group, kind=kind).members
        return [dict(Counter(place.topic for place in one.assignment)) for one in members]


@pytest.fixture(scope="module")
def world(zookeeper_server: ZooKeeperServer) -> Iterator[World]:
    connect = f"{zookeeper_server.connect}/semantics"
    with (
        EmbeddedBroker(properties=registered_at(connect)) as broker,
        Admin(bootstrap_servers=broker.bootstrap, zookeeper_connect=connect) as admin,
    ):
        yield World(broker, connect, admin)


@pytest.fixture(params=MEMBERS)
def protocol(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def kind(protocol: str) -> GroupKind:
    return MEMBERS[protocol][0]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return name_after_test(request)


@pytest.fixture
def topics(world: World, name: str) -> list[str]:
    """Two new ones."""
    made = [f"{name}-{letter}" for letter in "ab"]
    for one in made:
        world.broker.create_topic(one, PARTITION_COUNT)
    return made


@pytest.fixture
def member(world: World, protocol: str) -> Iterator[Members]:
    with ExitStack() as stack:

        def make(group: str, topics: Sequence[str]) -> Member:
            one = MEMBERS[protocol][1](world, group, topics)
            stack.callback(one.close)
            return one

        yield make


def until_seen(written: set[Place], *members: Member) -> Counter[Place]:
    """What members have seen together, when they have seen all of it."""

    def together() -> Counter[Place]:
        return sum((one.seen.copy() for one in members), Counter())  # copied at once: others add to it

    wait_for(lambda: together().keys() >= written, "all records were read")
    return together()


def test_unicast_in_a_group_multicast_across_groups(
    world: World, kind: GroupKind, topics: list[str], name: str, member: Members
) -> None:
    topic = topics[0]
    groups = {
        f"{name}-{size}": [member(f"{name}-{size}", [topic]) for _ in range(size)] for size in (1, 2, 4)
    }
    for group, members in groups.items():
        even = [{topic: PARTITION_COUNT // len(members)}] * len(members)
        wait_for(lambda group=group, even=even: world.shares(group, kind) == even, "the members share evenly")
    written = world.write(topic)
    for members in groups.values():
        assert until_seen(written, *members) == Counter(written)  # each record once in each group
        for one in members:
            assert len(one.seen) == RECORD_COUNT // len(members)


def test_group_is_global_to_the_cluster_not_to_a_topic(
    world: World, kind: GroupKind, topics: list[str], name: str, member: Members
) -> None:
    first, second = topics
    readers = [member(name, [first]), member(name, [second])]

    def is_shared() -> bool:
        shares = world.shares(name, kind)
        return sorted(shares, key=str) == [{first: PARTITION_COUNT}, {second: PARTITION_COUNT}]

    wait_for(is_shared, "two members of one group, with a topic each")
    assert [one.kind for one in world.admin.list_groups() if one.group_id == name] == [kind]
    written = [world.write(topic) for topic in topics]
    for one, its in zip(readers, written, strict=True):
        assert until_seen(its, one) == Counter(its)  # and nothing of the other's

    # Who joins for both topics takes a part of both: there is one membership, and not one for each topic.
    readers.append(member(name, topics))
    part = PARTITION_COUNT // 2
    even = sorted([{first: part}, {second: part}, {first: part, second: part}], key=str)
    wait_for(lambda: sorted(world.shares(name, kind), key=str) == even, "the third has a part of both")
    for one in readers:
        one.close()
    stored = world.admin.group_offsets(name, kind=kind)
    ends = RECORD_COUNT // PARTITION_COUNT
    assert {place.topic for place in stored} == set(topics)
    assert [one.offset for one in stored.values()] == [ends] * 2 * PARTITION_COUNT


def console(world: World, kind: GroupKind, *words: str) -> list[str]:
    """The command line of a console consumer."""
    where = {
        GroupKind.KAFKA: ("--bootstrap-server", world.broker.bootstrap),
        GroupKind.ZOOKEEPER: ("--zookeeper", world.connect),
    }
    return ["kafka-console-consumer", *where[kind], *words]


@pytest.mark.parametrize("protocol", ["classic", "zookeeper"])
def test_default_group_where_the_tools_need_one(world: World, kind: GroupKind, topics: list[str]) -> None:
    topic = topics[0]

    def made_up() -> set[str]:
        names = {one.group_id for one in world.admin.list_groups() if one.kind is kind}
        return {one for one in names if re.fullmatch(r"console-consumer-\d{1,5}", one)}

    world.write(topic)
    wanted = sorted(f"{number}" for number in range(RECORD_COUNT))
    words = console(world, kind, "--topic", topic, "--from-beginning", "--max-messages")
    # Nobody shares a group that nobody has named, and the next one begins anew.
    for _ in range(2):
        assert sorted(ours(*words, f"{RECORD_COUNT}").printed.split()) == wanted
    before = made_up()
    command = [sys.executable, "-m", "ottla", *words, f"{2 * RECORD_COUNT}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reading:
        try:
            wait_for(lambda: made_up() - before, "it is in a group of its own")
            world.write(topic)
            printed, _ = reading.communicate(timeout=PATIENCE_S)
        finally:
            reading.kill()
    assert sorted(printed.split()) == sorted(2 * wanted)
    for one in made_up():
        assert not world.admin.group_offsets(one, kind=kind)

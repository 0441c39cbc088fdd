"""One group of our members and of other clients, on the embedded broker and on Apache Kafka."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from ottla import EmbeddedBroker, Producer
from ottla.client.config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.grouped import GroupConsumer, RebalanceListener
from tests.fetching.traffic import PATIENCE_S
from tools.peer_cache import program
from tools.peers import KAFKA_0_9, KAFKA_4, RealKafka, Unavailable, kafka_libs

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its way to read its own files
    import kafka

PARTITIONS, RECORDS = 6, 1200
JAVA_NAMES = {
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


class Confluent:
    """librdkafka as a member; commits what it has read when its partitions go."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": strategy,
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 200,
            }
        )
        self._consumer.subscribe([topic], on_revoke=lambda _consumer, _partitions: self.commit())

    def commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError._NO_OFFSET:  # it has read nothing new
                raise

    def poll(self) -> list[tuple[int, int]]:
        read = [one for one in self._consumer.consume(500, 0.05) if one.error() is None]
        return [(one.partition(), one.offset()) for one in read]

    def held(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self.commit()
        self._consumer.close()


class KafkaPython:
    """kafka-python as a member; its auto commit comes before its partitions go, and a listener may not."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str) -> None:
        del strategy  # its own are range and round-robin
        self._consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
        )

    def poll(self) -> list[tuple[int, int]]:
        read = [one for some in self._consumer.poll(50).values() for one in some]
        return [(one.partition, one.offset) for one in read]

    def held(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class Ours:
    """The same with GroupConsumer."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str, **more: Any) -> None:
        settings = {"auto_offset_reset": "smallest", "heartbeat_interval_ms": 200, "fetch_wait_max_ms": 50}
        self._consumer = GroupConsumer(
            topic,
            group,
            bootstrap_servers=bootstrap,
            partition_assignment_strategy=strategy,
            enable_auto_commit=False,
            listener=self._listener(),
            **(settings | more),
        )

    def _listener(self) -> RebalanceListener:
        class Committing(RebalanceListener):
            def on_revoked(_, partitions: Any) -> None:  # noqa: N805, ARG002
                self._consumer.commit()

        return Committing()

    def poll(self) -> list[tuple[int, int]]:
        chunk = self._consumer.poll(50)
        if chunk is None:
            return []
        return [(chunk.topic_partition.partition, one) for one in chunk.batch["offset"].to_pylist()]

    def held(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment}

    def close(self) -> None:
        self._consumer.close()


class Java:
    """Kafka's own consumer, as its console tool, in a process of its own. What it holds it does not tell."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str) -> None:
        command = [program("java"), "-XX:+UseSerialGC", "-Xmx128m", "-cp", f"{kafka_libs(KAFKA_4)}/*"]
        command += ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap]
        command += ["--topic", topic, "--group", group, "--from-beginning"]
        for name in ("print.partition=true", "print.offset=true", "print.value=false"):
            command += ["--formatter-property", name]
        for name in (f"partition.assignment.strategy={JAVA_NAMES[strategy]}", "heartbeat.interval.ms=200"):
            command += ["--command-property", name]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._rest = b""

    def poll(self) -> list[tuple[int, int]]:
        assert self._process.stdout is not None
        select.select([self._process.stdout], [], [], 0.05)
        return self._rows(self._process.stdout.read() or b"")

    def _rows(self, text: bytes) -> list[tuple[int, int]]:
        *lines, self._rest = (self._rest + text).split(b"\n")
        fields = [dict(one.split(":") for one in line.decode().split("\t")) for line in lines]
        return [(int(one["Partition"]), int(one["Offset"])) for one in fields]

    def held(self) -> set[int]:
        return set()

    def close(self) -> list[tuple[int, int]]:
        self._process.terminate()
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), True)
        text, _ = self._process.communicate(timeout=PATIENCE_S)
        return self._rows(text)


class Group:
    """Members, each with a thread; what they read."""

    def __init__(self) -> None:
        self.members: list[Any] = []
        self.read: Counter[tuple[int, int]] = Counter()
        self.failures: list[BaseException] = []
        self._changed = threading.Condition()
        self._threads: dict[int, threading.Thread] = {}
        self._leaving: set[int] = set()
        self._held: dict[int, set[int]] = {}

    def add(self, make: Callable[[], Any]) -> int:
        number = len(self._threads)
        self._threads[number] = threading.Thread(target=self._run, args=(number, make))
        self._threads[number].start()
        return number

    def _run(self, number: int, make: Callable[[], Any]) -> None:
        try:
            member = make()
            while number not in self._leaving:
                rows = member.poll()
                with self._changed:
                    self.read.update(rows)
                    self._held[number] = member.held()
                    self._changed.notify_all()
            rest = member.close()
            with self._changed:
                self.read.update(rest or ())
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failures.append(error)
        finally:
            with self._changed:
                self._held.pop(number, None)
                self._changed.notify_all()

    def leave(self, *numbers: int) -> None:
        self._leaving |= set(numbers)
        for number in numbers:
            self._threads[number].join(PATIENCE_S)
            assert not self._threads[number].is_alive()

    def until(self, is_so: Callable[[dict[int, set[int]]], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while not is_so(self._held):
                assert not self.failures, self.failures
                assert time.monotonic() < deadline, (self._held, sum(self.read.values()))
                self._changed.wait(1)

    def close(self) -> None:
        self.leave(*self._threads)


def shared_by(count: int) -> Callable[[dict[int, set[int]]], bool]:
    def is_so(held: dict[int, set[int]]) -> bool:
        parts = [part for part in held.values() if part]
        return len(parts) == count and sorted(p for part in parts for p in part) == list(range(PARTITIONS))

    return is_so


def produce(bootstrap: str, topic: str, count: int, **more: Any) -> None:
    with Producer(bootstrap_servers=bootstrap, **more) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)


@pytest.fixture
def group() -> Iterator[Group]:
    one = Group()
    yield one
    one.close()


def check_mixed(
    group: Group, bootstrap: str, topic: str, strategy: str, others: list[Any], **more: Any
) -> None:
    """Ours first, then others, then ours again; then the first leaves, so that another leads."""
    name = f"group-of-{topic}"

    def ours() -> Ours:
        return Ours(bootstrap, name, topic, strategy, **more)

    producer = {key: value for key, value in more.items() if key == "broker_version"}
    produce(bootstrap, topic, RECORDS, **producer)
    first = group.add(ours)
    group.until(shared_by(1))
    for other in others:
        group.add(lambda other=other: other(bootstrap, name, topic, strategy))
    group.until(shared_by(1 + len(others)))
    produce(bootstrap, topic, RECORDS, **producer)
    group.add(ours)
    group.until(shared_by(2 + len(others)))
    group.leave(first)
    group.until(shared_by(1 + len(others)))
    produce(bootstrap, topic, RECORDS, **producer)
    expected = {(n, offset) for n in range(PARTITIONS) for offset in range(3 * RECORDS // PARTITIONS)}
    group.until(lambda _: group.read.keys() >= expected)
    assert group.read.keys() == expected
    assert set(group.read.values()) == {1}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.mark.parametrize(
    ("strategy", "others"),
    [
        ("range", [Confluent, KafkaPython]),
        ("roundrobin", [Confluent]),
        ("cooperative-sticky", [Confluent]),
    ],
    ids=["range", "roundrobin", "cooperative-sticky"],
)
def test_each_record_is_read_once_in_a_mixed_group(
    broker: EmbeddedBroker, group: Group, strategy: str, others: list[Any]
) -> None:
    broker.create_topic(strategy, PARTITIONS)
    check_mixed(group, broker.bootstrap, strategy, strategy, others)


@pytest.mark.parametrize(
    ("strategy", "leader"),
    [("sticky", "java"), ("cooperative-sticky", "ottla")],
    ids=["sticky", "cooperative"],
)
def test_each_record_is_read_once_with_kafkas_own_consumer(
    broker: EmbeddedBroker, group: Group, strategy: str, leader: str
) -> None:
    """Java assigns to us by what we told it, or we to Java by what it told us."""
    try:
        kafka_libs(KAFKA_4)
    except Unavailable as error:
        pytest.skip(f"Kafka's consumer cannot be run here: {error}")
    topic = f"java-{strategy}-{leader}"
    broker.create_topic(topic, PARTITIONS)
    produce(broker.bootstrap, topic, RECORDS)

    def member(kind: Any) -> int:
        return group.add(lambda: kind(broker.bootstrap, f"group-of-{topic}", topic, strategy))

    def ours_have(*sizes: int) -> Callable[[dict[int, set[int]]], bool]:
        return lambda held: sorted(len(part) for part in held.values() if part) == sorted(sizes)

    if leader == "java":
        java = member(Java)
        group.until(lambda _: sum(group.read.values()) == RECORDS)  # it is in, and has all of it
    first = member(Ours)
    if leader == "ottla":
        group.until(ours_have(PARTITIONS))
        java = member(Java)
    group.until(ours_have(PARTITIONS // 2))
    member(Ours)
    group.until(ours_have(2, 2))
    produce(broker.bootstrap, topic, RECORDS)
    group.leave(first)
    group.until(ours_have(PARTITIONS // 2))
    group.leave(java)
    group.until(ours_have(PARTITIONS))
    produce(broker.bootstrap, topic, RECORDS)
    expected = {(n, offset) for n in range(PARTITIONS) for offset in range(3 * RECORDS // PARTITIONS)}
    group.until(lambda _: group.read.keys() >= expected)
    assert group.read.keys() == expected
    assert set(group.read.values()) == {1}


@pytest.mark.parametrize("version", [KAFKA_0_9, KAFKA_4])
def test_each_record_is_read_once_on_apache_kafka(group: Group, version: str) -> None:
    properties = {"num.partitions": str(PARTITIONS)}
    more = {"broker_version": "0.9"} if version == KAFKA_0_9 else {}
    others: list[Any] = [] if version == KAFKA_0_9 else [Confluent]
    try:
        with RealKafka(version, properties=properties) as real:
            with ClusterMetadata(
                ClientConfig.from_properties({"bootstrap.servers": real.bootstrap, **more})
            ) as m:
                m.partitions("t")  # asking makes it
            strategy = "range" if version == KAFKA_0_9 else "cooperative-sticky"
            check_mixed(group, real.bootstrap, "t", strategy, others, **more)
            group.close()
    except Unavailable as error:
        pytest.skip(f"Kafka {version} cannot be run here: {error}")

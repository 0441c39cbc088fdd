"""Members of a group by other clients, and by ours in the same shape: `poll`, `held`, `close`.

All commit what they have read when their partitions go, so that a mixed group reads each record once.
"""

from __future__ import annotations

import os
import select
import subprocess
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import confluent_kafka

from ottla.consumer.coordinated import GroupConsumer, RebalanceListener
from tests.consumer.coordinated.member_process import CONSUMER, SHARE
from tests.kafka_python import KafkaConsumer
from tests.waiting import PATIENCE_S
from tools.java_process import java_command
from tools.peer_cache import KAFKA_0_9, KAFKA_CLIENTS, go_programs, java_classes, kafka_libs

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its way to read its own files
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

Rows = list[tuple[int, int]]
"""Partition and offset of each record."""

GO_MODULE = Path(__file__).parents[2] / "compatibility" / "clients" / "golang"
JAVA_MEMBER = Path(__file__).with_name("GroupMember.java")
SCALA_MEMBER = Path(__file__).parents[1] / "classic" / "ScalaMember.java"
JAVA_NAMES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
KAFKA_PYTHON_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


NOTHING_TO_COMMIT = {
    confluent_kafka.KafkaError._NO_OFFSET,  # it has read nothing new
    confluent_kafka.KafkaError._DESTROY,  # it is being closed, and has committed before that
}


class ForeignMember(Protocol):
    """What a test does with a member. One thread."""

    def poll(self) -> Rows:
        """Read for a moment."""

    def held(self) -> set[int]:
        """The partitions that it has."""

    def close(self) -> Rows | None:
        """Leave; what it read meanwhile."""


class Ours:
    """GroupConsumer."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str, **more: Any) -> None:
        settings: dict[str, Any] = {"auto_offset_reset": "smallest", "fetch_wait_max_ms": 50}
        if strategy == CONSUMER:
            settings |= {"group_protocol": CONSUMER}
        else:
            settings |= {"partition_assignment_strategy": strategy, "heartbeat_interval_ms": 200}
        self._consumer = GroupConsumer(
            topic,
            group_id=group,
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            listener=self._listener(),
            **(settings | more),
        )

    def _listener(self) -> RebalanceListener:
        class Committing(RebalanceListener):
            def on_revoked(_, partitions: Any) -> None:  # noqa: N805, ARG002
                self._consumer.commit()

        return Committing()

    def poll(self) -> Rows:
        chunk = self._consumer.poll(0.05)
        if chunk is None:
            return []
        return [(chunk.topic_partition.partition, one) for one in chunk.batch["offset"].to_pylist()]

    def held(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment}

    def close(self) -> None:
        self._consumer.close()


class Confluent:
    """librdkafka."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str) -> None:
        own = {"partition.assignment.strategy": strategy, "heartbeat.interval.ms": 200}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **({"group.protocol": CONSUMER} if strategy == CONSUMER else own),
            }
        )
        self._consumer.subscribe([topic], on_revoke=lambda _consumer, _partitions: self.commit())

    def commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() not in NOTHING_TO_COMMIT:
                raise

    def poll(self) -> Rows:
        read = [one for one in self._consumer.consume(500, 0.05) if one.error() is None]
        return [(one.partition(), one.offset()) for one in read]

    def held(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self.commit()
        self._consumer.close()


class KafkaPython:
    """kafka-python; its auto commit comes before its partitions go, and a listener may not commit."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str, **more: Any) -> None:
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            partition_assignment_strategy=[KAFKA_PYTHON_ASSIGNORS[strategy]],
            **more,
        )

    def poll(self) -> Rows:
        read = [one for some in self._consumer.poll(50).values() for one in some]
        return [(one.partition, one.offset) for one in read]

    def held(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class ProgramLine(NamedTuple):
    """A line of a program with members: what a member holds now, or what it has read of a partition."""

    member: int
    generation: int
    held: set[int] | None = None
    partition: int = -1
    first: int = 0
    next: int = 0

    @classmethod
    def of(cls, line: bytes) -> Self:
        """See GroupMember.java for the forms."""
        kind, *words = line.split()
        member, generation, *numbers = map(int, words)
        if kind == b"held":
            return cls(member, generation, set(numbers))
        return cls(member, generation, None, *numbers)


class ProcessMember:
    """A program with one member, which leaves when its input ends; it prints what `ProgramLine` reads."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._rest = b""
        self._held: set[int] = set()

    def poll(self) -> Rows:
        assert self._process.stdout is not None
        select.select([self._process.stdout], [], [], 0.05)
        rows = self._rows(self._process.stdout.read() or b"")
        assert self._process.poll() is None, f"{self._process.args!r} has ended"
        return rows

    def _rows(self, text: bytes) -> Rows:
        *lines, self._rest = (self._rest + text).split(b"\n")
        rows = []
        for line in map(ProgramLine.of, lines):
            if line.held is not None:
                self._held = line.held
            rows += [(line.partition, offset) for offset in range(line.first, line.next)]
        return rows

    def held(self) -> set[int]:
        return self._held

    def close(self) -> Rows:
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), True)
        text, _ = self._process.communicate(timeout=PATIENCE_S)
        return self._rows(text)


def go_program(name: str, *arguments: str) -> list[str]:
    """The command that starts a Go program. Raises Unavailable."""
    return [str(go_programs(GO_MODULE) / name), *arguments]


def java_program(
    version: str, bootstrap: str, group: str, topic: str, strategy: str, *more: str
) -> list[str]:
    """The command that starts members of a version of Kafka's consumer. Raises Unavailable."""
    source = JAVA_MEMBER.with_stem("ShareMember") if strategy == SHARE else JAVA_MEMBER
    command = java_command(kafka_libs(version), java_classes(source, version), heap_mb=128)
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", source.stem]
    names = ",".join(JAVA_NAMES.get(name, name) for name in strategy.split(","))
    return [*command, bootstrap, group, topic, names, *more]


def scala_program(*arguments: str) -> list[str]:
    """The command that starts members of Kafka 0.9's high-level consumer. Raises Unavailable."""
    command = java_command(kafka_libs(KAFKA_0_9), java_classes(SCALA_MEMBER, KAFKA_0_9), heap_mb=128)
    return [*command, SCALA_MEMBER.stem, *arguments]


PROGRAMS: dict[str, Callable[..., list[str]]] = {
    "java": partial(java_program, KAFKA_CLIENTS),
    "franz-go": partial(go_program, "franzmember"),
    "scala": scala_program,
}
"""Commands of programs with several members, by client: bootstrap, group, topic, strategy, count, session.

Those of "scala" have groups in ZooKeeper, and get its address instead.
"""


def go_member(name: str) -> Callable[..., ProcessMember]:
    return lambda *arguments: ProcessMember(go_program(name, *arguments))


def java_member(version: str) -> Callable[..., ProcessMember]:
    return lambda *arguments: ProcessMember(java_program(version, *arguments))


EAGER = frozenset({"range", "roundrobin", "sticky"})
ALL = EAGER | {"cooperative-sticky"}
FOREIGN: dict[str, tuple[Callable[..., ForeignMember], frozenset[str]]] = {
    "java": (java_member(KAFKA_CLIENTS), ALL),
    "sarama": (go_member("saramamember"), EAGER),
    "franz-go": (go_member("franzmember"), ALL),
    "librdkafka": (Confluent, ALL - {"sticky"}),
    "kafka-python": (KafkaPython, EAGER),
}
"""Clients, and which strategies they have."""

OF_0_9: dict[str, Callable[..., ForeignMember]] = {
    "java 0.9": java_member(KAFKA_0_9),
    "kafka-python": lambda *arguments: KafkaPython(*arguments, api_version=(0, 9)),
}

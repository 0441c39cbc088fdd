"""A group of Kafka's own consumers and ours: its topic, its members, and what they have seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ottla.client.client_config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.consumer.classic import ConsumerConnector, TopicFilter
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import KafkaOffsets
from ottla.records.messages import Message, MessageSet
from tests.consumer.classic.process_member import ProcessMember
from tests.consumer.classic.reading import Reader
from tests.consumer.classic.scala_consumer import ScalaConsumer
from tests.fetching.real_traffic import is_written
from tests.waiting import wait_for

PARTITIONS = 8
ALL = range(PARTITIONS)

IN_ZOOKEEPER = {"offsets.storage": "zookeeper"}
IN_BOTH = {"offsets.storage": "kafka", "dual.commit.enabled": "true"}
IN_KAFKA = {"offsets.storage": "kafka", "dual.commit.enabled": "false"}


@dataclass(frozen=True)
class Cluster:
    """Where the group's topics are, and how we write to them and read."""

    zookeeper: str
    client: ClientConfig
    magic: int
    settings: Mapping[str, str]


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


class Group:
    """Has a topic of its own name. Every value is PARTITION-OFFSET. Members end with `stack`."""

    def __init__(self, cluster: Cluster, libs: Path, work: Path, name: str, stack: ExitStack) -> None:
        self.name = name
        self.ends = dict.fromkeys(ALL, 0)
        self.connectors: dict[str, ConsumerConnector] = {}
        self.readers: dict[str, Values] = {}
        self.consoles: dict[str, ScalaConsumer] = {}
        self.processes: dict[str, ProcessMember] = {}
        self._cluster, self._libs, self._work, self._stack = cluster, libs, work, stack

    def write(self, count: int, partitions: Iterable[int] = ALL) -> None:
        """So many messages in each of these partitions."""
        config = self._cluster.client
        with ClusterMetadata(config) as metadata:
            assert len(metadata.partitions(self.name)) == PARTITIONS
            for partition in partitions:
                end = self.ends[partition]
                rows = [Message(f"{partition}-{end + row}".encode()) for row in range(count)]
                data = bytes(MessageSet.of(rows, magic=self._cluster.magic).data)
                place = TopicAndPartition(self.name, partition)
                wait_for(partial(is_written, metadata, config, place, data, end))
                self.ends[partition] = end + count

    def join(
        self,
        name: str,
        settings: Mapping[str, object] = IN_ZOOKEEPER,
        topic_filter: TopicFilter | None = None,
    ) -> ConsumerConnector:
        """One of ours, in this process. It subscribes to the topic by its name, or by a filter."""
        given: dict[str, object] = {
            "group.id": self.name,
            "consumer.id": name,
            "zookeeper.connect": self._cluster.zookeeper,
            "auto.offset.reset": "smallest",
            "zookeeper.session.timeout.ms": 4000,
            "zookeeper.connection.timeout.ms": 30_000,
            "rebalance.backoff.ms": 2000,
            "auto.commit.interval.ms": 300,
            **self._cluster.settings,
            **settings,
        }
        one = self._stack.enter_context(ConsumerConnector(given))
        self.connectors[name] = one
        if topic_filter is None:
            streams = one.create_message_streams({self.name: 1})[self.name]
        else:
            streams = one.create_message_streams_by_filter(topic_filter)
        self.readers[name] = Values(streams)
        return one

    def join_process(self, name: str) -> ProcessMember:
        """One of ours, in a process of its own."""
        settings = {"rebalance.backoff.ms": "2000", **self._cluster.settings}
        one = ProcessMember(self._cluster.zookeeper, self.name, name, self.name, settings)
        self._stack.callback(one.kill)
        self.processes[name] = one
        return one

    def join_scala(
        self,
        name: str,
        settings: Mapping[str, str] = IN_ZOOKEEPER,
        *,
        messages_max: int | None = None,
        libs: Path | None = None,
    ) -> ScalaConsumer:
        """One of Kafka's, of the group's version or of another."""
        one = ScalaConsumer(
            libs or self._libs,
            self._work,
            zookeeper=self._cluster.zookeeper,
            group=self.name,
            topic=self.name,
            name=name,
            settings=settings,
            messages_max=messages_max,
        )
        self.consoles[name] = self._stack.enter_context(one)
        return one

    def seen(self) -> Counter[str]:
        """By all members."""
        total: Counter[str] = Counter()
        for one in (*self.readers.values(), *self.consoles.values()):
            total += one.seen  # type: ignore[attr-defined]
        for process in self.processes.values():
            total += Counter(
                {f"{partition}-{offset}": n for (_, partition, offset), n in process.seen.items()}
            )
        return total

    def expected(self) -> set[str]:
        """All that was written."""
        return {f"{partition}-{row}" for partition, end in self.ends.items() for row in range(end)}

    def has_all(self) -> bool:
        """Whether everything was seen."""
        return set(self.seen()) == self.expected()

    def in_kafka(self) -> dict[int, int]:
        """Partition → the offset that is stored in Kafka."""
        with KafkaOffsets(self._cluster.client) as store:
            found = store.fetch(self.name, [TopicAndPartition(self.name, number) for number in ALL])
        return {place.partition: position.offset for place, position in found.items()}

"""What the brokers of one process share: the data directory, the topics, and one event loop that owns them.

    Cluster ── nodes: one listening socket each, an id, a group coordinator
       ├────── catalog: topics and configs        ── on disk: ottla.json
       ├────── partitions: logs, leaders, waiters ── on disk: topic-partition/
       └────── turn: appends of one turn, written together

With one node this is a broker. With several it is what clients see of a cluster (leaders here and there, a
broker that dies, a leader that moves), over one copy of the data: no replication, nothing survives a disk.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.broker.adoption import adopted
from ottla.broker.catalog import Catalog, Topic
from ottla.broker.config import BrokerConfig, DynamicOverrides, FlushPolicy, with_dynamic
from ottla.broker.partition import NO_LEADER, Partition
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.producers import restart
from ottla.broker.topic_settings import TopicConfig, offsets_topic_overrides, topic_config
from ottla.broker.turn import Turn
from ottla.log import checkpoints, partition_metadata
from ottla.log.config import LogConfig
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError

if TYPE_CHECKING:
    from ottla.broker.connection import Connection
    from ottla.broker.node import Node
    from ottla.broker.registration.offsets import ZooKeeperOffsets
    from ottla.broker.registration.registration import ZooKeeperRegistration

log = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC})


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Cluster:
    """Owned by the event loop that runs when it is made."""

    def __init__(self, config: BrokerConfig, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.started_with = config
        self.config = config  # with what admin clients have changed since
        self.now_ms = now_ms
        self.loop = asyncio.get_running_loop()
        self.executor = ThreadPoolExecutor(4, "ottla-broker")  # fsync, compaction, cold reads, conversion
        self.nodes: dict[int, Node] = {}
        self.partitions: dict[str, list[Partition]] = {}
        self.topic_names: dict[bytes, str] = {}  # by topic id
        self.is_closed = False
        self.generation = 0  # counts changes of what Metadata tells
        self._with_output: dict[Connection, None] = {}
        self.turn = Turn(
            self.loop,
            self.executor,
            flush_always=config.flush is FlushPolicy.ALWAYS,
            after=self._write_output,
        )
        self.leader_listeners: list[Callable[[Partition, int], None]] = []
        self.topic_listeners: list[Callable[[str], None]] = []
        self.node_listeners: list[Callable[[], None]] = []  # a node has come or gone
        self.zookeeper: ZooKeeperRegistration | None = None
        self._open()

    # --- the data directory

    def _open(self) -> None:
        path, now_ms = self.config.data_dir, self.now_ms()
        try:
            path.mkdir(parents=True, exist_ok=True)
            known = checkpoints.read_properties(path / checkpoints.META)
        except OSError as error:
            raise StorageError(f"{path}: cannot use it as data directory: {error}") from error
        # A configured id that differs from the known one is refused with the directory, not passed over.
        self.cluster_id = self.config.cluster_id or known.get("cluster.id") or new_id()
        self.catalog = Catalog(path)
        self._keep_offsets_partitions()
        self.config = with_dynamic(self.started_with, self.dynamic)
        self.directory = LogDirectory.open(
            path,
            lambda topic, _: self._log_config(topic),
            now_ms,
            broker_id=self.config.broker_id,
            cluster_id=self.cluster_id,
        )
        try:
            self._open_topics()
        except BaseException:
            self.directory.abandon()  # and its lock: the caller may try again
            raise

    def _open_topics(self) -> None:
        self._finish_deletions()
        self._adopt()
        for topic in self.catalog.topics.values():
            self._open_topic(topic)
        self.producer_ids = ProducerIds(
            self.catalog.producer_ids_end,
            self.catalog.reserve_producer_ids,
            (id_ for partition in self.all_partitions() for id_ in partition.producers.ids),
        )

    def _keep_offsets_partitions(self) -> None:
        """Groups are found by this number: what the topic was made with holds, whatever is configured now."""
        known = self.catalog.topics.get(OFFSETS_TOPIC)
        if known is not None:
            groups = replace(self.started_with.groups, offsets_partition_count=known.partition_count)
            self.started_with = replace(self.started_with, groups=groups)

    def _log_config(self, topic: str) -> LogConfig:
        known = self.catalog.topics.get(topic)
        return self.topic_config(known).log if known else self.config.log

    def topic_config(self, topic: Topic) -> TopicConfig:
        """What a topic's settings come to."""
        return topic_config(self.config, topic.overrides)

    def _finish_deletions(self) -> None:
        deleting = [topic for topic in self.catalog.topics.values() if topic.is_deleting]
        for topic in deleting:
            self._delete_directories(topic.name)
            self.catalog.remove(topic.name)
        if deleting:
            self.directory.purge_deleted()

    def _delete_directories(self, topic: str) -> None:
        known = (*self.directory.logs, *self.directory.damaged)
        self.directory.delete_all([key for key in known if key[0] == topic])

    def _adopt(self) -> None:
        """Make topics of partition directories that the catalog does not know."""
        own = {OFFSETS_TOPIC: offsets_topic_overrides(self.config)}
        found = adopted(self.directory, self.catalog.topics, self.config.broker_id, own)
        if found:
            names = ", ".join(topic.name for topic in found)
            log.warning("adopting topics of unknown settings, with nothing to be deleted of them: %s", names)
            self.catalog.put(found)
            self._keep_offsets_partitions()
            self.config = with_dynamic(self.started_with, self.dynamic)

    def _open_topic(self, topic: Topic) -> None:
        """Make the partitions that are not there yet, with their logs."""
        settings = self.topic_config(topic)
        partitions = self.partitions.setdefault(topic.name, [])
        self.topic_names[topic.topic_id] = topic.name
        indexes = range(len(partitions), topic.partition_count)
        self._make_logs(topic, indexes, settings.log)
        for index in indexes:
            stored = self.directory.logs.get((topic.name, index))
            partition = Partition(topic.name, index, stored, topic.replicas[index], settings)
            partition.leader_epoch = topic.leader_epochs[index]
            if stored is not None:
                stored.configure(settings.log)  # one that was adopted had none of its own until now
                self._name_topic(stored, topic)
                restart.load(partition.producers, stored, self.now_ms(), self.config.producer_id_expiry_ms)
            partitions.append(partition)

    def _name_topic(self, stored: PartitionLog, topic: Topic) -> None:
        """Have the topic's id in the partition's directory, as Kafka has it there."""
        if partition_metadata.read(stored.path) != topic.topic_id:
            partition_metadata.write(stored.path, topic.topic_id, stored.file_system)

    def _make_logs(self, topic: Topic, indexes: Iterable[int], config: LogConfig) -> None:
        """Make those that are neither there nor damaged."""
        missing = []
        for index in indexes:
            damage = self.directory.damaged.get((topic.name, index))
            if damage is not None:
                log.error("%s-%d is damaged and not served: %s", topic.name, index, damage)
            elif (topic.name, index) not in self.directory.logs:
                missing.append(index)
        if missing:
            self.directory.create_all(topic.name, missing, config, self.now_ms())

    # --- topics, as `topics` has decided

    def topic(self, name: str) -> Topic:
        """Raises KafkaError 3 if there is no such topic."""
        topic = self.catalog.topics.get(name)
        if topic is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        return topic

    def add_partitions(self, topic: Topic) -> None:
        """Make the partitions that the catalog has and we have not."""
        self._open_topic(topic)
        self.elect(self.partitions[topic.name])
        self._tell(topic.name)

    def drop_partitions(self, name: str) -> None:
        """Take a topic out of service, and its directories out of the way."""
        self.turn.end()
        partitions = self.partitions.pop(name, [])
        self.topic_names.pop(self.catalog.topics[name].topic_id, None)
        self.lead((partition, NO_LEADER) for partition in partitions)
        for partition in partitions:
            partition.log = None
        self._delete_directories(name)
        self._tell(name)

    def apply_settings(self, topic: Topic) -> None:
        """Use a topic's settings from now on."""
        settings = self.topic_config(topic)
        for partition in self.partitions.get(topic.name, ()):  # none of a topic that is half deleted
            partition.settings = settings
            if partition.log is not None:
                partition.log.configure(settings.log)
        self._tell(topic.name)

    @property
    def dynamic(self) -> DynamicOverrides:
        """What admin clients have set. The brokers share one config: the first one's overrides count."""
        stored = self.catalog.broker_overrides
        return DynamicOverrides(stored.get(str(self.started_with.broker_id), {}), stored.get("", {}))

    def apply_broker_overrides(self) -> None:
        """Use what admin clients have set for brokers from now on."""
        self.config = with_dynamic(self.started_with, self.dynamic)
        for topic in self.catalog.topics.values():
            self.apply_settings(topic)

    def _tell(self, name: str) -> None:
        self.generation += 1
        for listener in self.topic_listeners:
            listener(name)

    # --- partitions

    def all_partitions(self) -> Iterator[Partition]:
        """Of all topics."""
        for partitions in self.partitions.values():
            yield from partitions

    def partition(self, topic: str, index: int) -> Partition:
        """Raises KafkaError 3 if it does not exist."""
        partitions = self.partitions.get(topic)
        if partitions is None or not 0 <= index < len(partitions):
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{index}")
        return partitions[index]

    def topic_name(self, topic_id: bytes) -> str:
        """Raises KafkaError 100 for an id that no topic has."""
        name = self.topic_names.get(topic_id)
        if name is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_ID, topic_id.hex())
        return name

    def elect(self, partitions: Iterable[Partition]) -> None:
        """Give partitions whose leader is not there the first of their brokers that is."""
        changed = []
        for partition in partitions:
            if partition.leader in self.nodes:
                continue
            alive = [broker_id for broker_id in partition.replicas if broker_id in self.nodes]
            leader = alive[0] if alive else NO_LEADER
            if leader != partition.leader:
                changed.append((partition, leader))
        self.lead(changed)

    def lead(self, changes: Iterable[tuple[Partition, int]]) -> None:
        """Make brokers leaders. A partition that had one gets a new epoch, so that clients notice."""
        self.turn.end()  # what is staged is of the leaders until now: the next ones must find it in the log
        previous = []
        bumped: set[str] = set()
        for partition, leader in changes:
            previous.append((partition, partition.leader))
            if partition.was_led:
                partition.leader_epoch += 1
                bumped |= {partition.topic} & self.partitions.keys()
            partition.leader = leader
            partition.was_led = True
        self._store_epochs(bumped)
        self.generation += 1
        for partition, leader_before in previous:
            for listener in self.leader_listeners:
                listener(partition, leader_before)
            partition.wake(0)

    def _store_epochs(self, names: set[str]) -> None:
        """A disk that takes nothing must not keep a leader from going, or the whole broker from stopping."""
        try:
            if names:
                self.catalog.put([self._with_epochs(name) for name in names])
        except StorageError as error:
            log.error("leader epochs are not stored, the next start goes on with older ones: %s", error)

    def _with_epochs(self, name: str) -> Topic:
        epochs = tuple(partition.leader_epoch for partition in self.partitions[name])
        return replace(self.catalog.topics[name], leader_epochs=epochs)

    # --- nodes

    @property
    def controller_id(self) -> int:
        """The broker that does the administration: any can, so the first."""
        return min(self.nodes, default=NO_LEADER)

    def join(self, nodes: Iterable[Node]) -> None:
        """Brokers have come up: all at once, or the first one would lead what the others shall."""
        self.nodes |= {node.broker_id: node for node in nodes}
        self._nodes_changed()

    def leave(self, node: Node) -> None:
        """A broker has gone."""
        if self.nodes.pop(node.broker_id, None) is not None:
            self._nodes_changed()

    def _nodes_changed(self) -> None:
        self.elect(self.all_partitions())
        for listener in self.node_listeners:
            listener()

    @property
    def zookeeper_offsets(self) -> ZooKeeperOffsets:
        """Where offsets of version 0 are. Raises KafkaError 15 until the nodes are registered."""
        if self.zookeeper is None:
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE, "not registered in ZooKeeper yet")
        return self.zookeeper.offsets

    # --- output

    def has_output(self, connection: Connection) -> None:
        """`connection` got an answer outside of its own turn: written with the end of this one."""
        if not self._with_output:
            self.loop.call_soon(self._write_output)
        self._with_output[connection] = None

    def _write_output(self) -> None:
        while self._with_output:
            connections, self._with_output = self._with_output, {}
            for connection in connections:
                connection.flush()

    # --- end

    def _save_producers(self, partition: Partition) -> None:
        assert partition.log is not None
        try:
            restart.save(partition.producers, partition.log)
        except StorageError as error:
            log.error("producers of %s are not saved, the next start reads the log: %s", partition, error)

    async def close(self) -> None:
        """Write and flush everything. Nodes must have stopped."""
        await self.turn.drain()
        self.is_closed = True
        self.executor.shutdown()
        for partition in self.all_partitions():
            if partition.log is not None:
                self._save_producers(partition)
        try:
            self.directory.close()
        except StorageError as error:
            log.error("not closed cleanly, the next start repairs it: %s", error)
            raise


def new_id() -> str:
    """A random id as Kafka writes them: 16 bytes in 22 characters that never begin with a dash."""
    while True:
        text = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text

"""The topics of one data directory: its catalog, the partitions with their logs, and the settings in force.

    TopicStore ── catalog: topics and settings       ── on disk: ottla.json
        ├──────── partitions: logs, leaders, waiters ── on disk: TOPIC-PARTITION/
        └──────── config: as started, with what admin clients have changed since

This module opens, finds and closes. Who leads a partition is decided in `leaders`, and topics are created,
changed and deleted in `topic_changes`.
"""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from ottla.broker.producer_state import producer_restart
from ottla.broker.producer_state.producer_ids import ProducerIds
from ottla.broker.settings.broker_config import BrokerConfig, DynamicOverrides, with_dynamic
from ottla.broker.settings.topic_settings import TopicConfig, own_topics, topic_config
from ottla.broker.storage.adoption import adopted
from ottla.broker.storage.catalog import Catalog, Topic
from ottla.broker.storage.partition import Partition
from ottla.log import checkpoints, partition_metadata
from ottla.log.file_system import REAL, FileSystem
from ottla.log.log_config import LogConfig
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.model.topic_partition import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from ottla.security.private_files import make_private_directory

log = logging.getLogger(__name__)

T = TypeVar("T")

SLICE_PARTITIONS = 64
"""Partitions that are made or deleted at a step: some milliseconds. Each deletion waits for the disk."""
FLUSHED_PARTITIONS = 1024
"""How many new partitions share one wait for the disk, which takes longer the more there are."""


def exhausted(work: Generator[None, None, T]) -> T:
    """Do sliced work at once, and return what it returns."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


class TopicStore:
    """Owned by the broker's loop. Raises StorageError if the directory cannot be used.

    started_with     the config as given
    config           the config in force: `started_with` with what admin clients have changed since
    topic_names      names by topic id
    topic_listeners  called with the name of every topic that is created, changed or deleted
    """

    def __init__(
        self, config: BrokerConfig, now_ms: Callable[[], int], file_system: FileSystem = REAL
    ) -> None:
        self.started_with = config
        self.config = config
        self.partitions: dict[str, list[Partition]] = {}
        self.topic_names: dict[bytes, str] = {}
        self.losses: list[Partition] = []
        self.topic_listeners: list[Callable[[str], None]] = []
        self._now_ms = now_ms
        self._file_system = file_system
        self._open()

    # --- opening the data directory

    def _open(self) -> None:
        path = self.config.data_dir
        try:
            make_private_directory(path)
            stored = checkpoints.read_properties(path / checkpoints.META)
        except OSError as error:
            raise StorageError(f"{path}: cannot use it as data directory: {error}") from error
        # LogDirectory.open refuses a configured id that differs from the stored one.
        self.catalog = Catalog(path, self._file_system)
        self.cluster_id = self._cluster_id(stored.get("cluster.id", ""))
        self._keep_own_partitions()
        self.config = with_dynamic(self.started_with, self.dynamic)
        config_of = cache(self._log_config)  # a topic may have thousands of partitions
        self.directory = LogDirectory.open(
            path,
            lambda topic, _: config_of(topic),
            self._now_ms(),
            broker_id=self.config.broker_id,
            cluster_id=self.cluster_id,
            file_system=self._file_system,
        )
        try:
            self._open_topics()
        except BaseException:
            self.directory.abandon()  # frees its lock too: the caller may try again
            raise

    def _cluster_id(self, stored: str) -> str:
        """Return the configured id, that of meta.properties, that of the catalog, or a new one."""
        known = self.catalog.cluster_id
        # A directory without topics may just be joining the cluster of a ZooKeeper.
        if stored and known and stored != known and self.catalog.topics:
            remedy = checkpoints.REMEDY.format(self.config.data_dir)
            path = self.config.data_dir / checkpoints.META
            raise StorageError(f"{path} says cluster.id={stored}, the catalog says {known}: {remedy}")
        if known and not stored:
            log.warning("%s was lost: it is made again, with the cluster id of the catalog", checkpoints.META)
        return self.config.cluster_id or stored or known or new_cluster_id()

    def _open_topics(self) -> None:
        self.catalog.cluster_id = self.cluster_id
        self._finish_deletions()
        self._adopt()
        for topic in self.catalog.topics.values():
            for index in range(topic.partition_count):
                self.directory.note_missing(topic.name, index)
            exhausted(self.open_partitions(topic))
        self.directory.absent.clear()  # the others are of topics that were deleted
        self._log_losses()
        self.producer_ids = ProducerIds(
            self.catalog.producer_ids_end,
            self.catalog.reserve_producer_ids,
            (id_ for partition in self.all_partitions() for id_ in partition.producers.ids),
        )

    def _log_losses(self) -> None:
        """Log what was lost, cut or damaged when the logs were opened: once, since the checkpoints then agree
        with the logs.

        `losses` are the partitions in question, for /metrics.
        """
        for note in (*self.catalog.losses, *self.directory.notes):
            log.warning("%s", note)
        if self.catalog.losses:
            # A full disk must not prevent a start: it is logged again at the next one.
            with suppress(StorageError):
                self.catalog.renew()
        for partition in self.all_partitions():
            if partition.log is not None:
                report = partition.log.report
                sentences = list(report.sentences())
                if sentences:
                    log.warning("%s-%d: %s", partition.topic, partition.index, "; ".join(sentences))
                if report.bytes_cut or report.offsets_lost:
                    self.losses.append(partition)

    def _keep_own_partitions(self) -> None:
        """Keep the partition counts that the broker's own topics were created with, whatever is configured.

        A hash over this number says which partition a group or a transactional id belongs to.
        """
        topic = self.catalog.topics.get(OFFSETS_TOPIC)
        if topic is not None:
            groups = replace(self.started_with.groups, offsets_partition_count=topic.partition_count)
            self.started_with = replace(self.started_with, groups=groups)
        topic = self.catalog.topics.get(TRANSACTIONS_TOPIC)
        if topic is not None:
            kept = replace(self.started_with.transactions, partition_count=topic.partition_count)
            self.started_with = replace(self.started_with, transactions=kept)
        topic = self.catalog.topics.get(SHARE_STATE_TOPIC)
        if topic is not None:
            shares = replace(self.started_with.shares, partition_count=topic.partition_count)
            self.started_with = replace(self.started_with, shares=shares)

    def _log_config(self, topic_name: str) -> LogConfig:
        topic = self.catalog.topics.get(topic_name)
        return self.topic_config(topic).log if topic else self.config.log

    def _finish_deletions(self) -> None:
        for topic in [topic for topic in self.catalog.topics.values() if topic.is_deleting]:
            doomed = exhausted(self.delete_directories(topic))
            self.catalog.remove([topic.name])
            self.directory.purge_deleted(doomed)

    def _adopt(self) -> None:
        """Create topics for partition directories that the catalog does not name."""
        own = {name: dict(topic.overrides) for name, topic in own_topics(self.config).items()}
        topics = adopted(self.directory, self.catalog.topics, self.config.broker_id, own)
        if topics:
            names = ", ".join(topic.name for topic in topics)
            log.warning("adopting topics of unknown settings, with nothing to be deleted of them: %s", names)
            self.catalog.put(topics)
            self._keep_own_partitions()
            self.config = with_dynamic(self.started_with, self.dynamic)

    # --- partitions and their files

    def open_partitions(self, topic: Topic) -> Generator[None, None, None]:
        """Make those partitions of a topic that do not exist yet, with their logs: a slice at each step.

        They are seen when all of them are made. Raises StorageError.
        """
        settings = self.topic_config(topic)
        opened: list[Partition] = []
        unflushed = 0
        known = len(self.partitions.get(topic.name, ()))
        for first in range(known, topic.partition_count, SLICE_PARTITIONS):
            indexes = range(first, min(first + SLICE_PARTITIONS, topic.partition_count))
            unflushed += self._make_logs(topic, indexes, settings.log)
            if unflushed >= FLUSHED_PARTITIONS or (unflushed and indexes.stop == topic.partition_count):
                self.directory.flush_names()
                unflushed = 0
            opened += (self._opened(topic, index, settings) for index in indexes)
            yield
        self.topic_names[topic.topic_id] = topic.name
        self.partitions.setdefault(topic.name, []).extend(opened)

    def _opened(self, topic: Topic, index: int, settings: TopicConfig) -> Partition:
        stored = self.directory.logs.get((topic.name, index))
        partition = Partition(topic.name, index, stored, topic.replicas[index], settings)
        partition.leader_epoch = topic.leader_epochs[index]
        if stored is not None:
            stored.check_epochs(partition.leader_epoch)
            # The catalog may be behind the log: a full disk did not store the last epoch, or its line is
            # lost.
            partition.leader_epoch = max(partition.leader_epoch, stored.epochs.latest)
            stored.configure(settings.log)  # an adopted log had no settings of its own until now
            stored.topic_id = topic.topic_id
            _store_topic_id(stored, topic)
            if stored.has_files:
                expiry_ms = self.config.producer_id_expiry_ms
                now_ms, names = self._now_ms(), stored.report.snapshots
                producer_restart.load(partition.producers, stored, now_ms, expiry_ms, names)
        return partition

    def _make_logs(self, topic: Topic, indexes: Iterable[int], config: LogConfig) -> int:
        """Make the logs that neither exist nor are damaged, and return how many. They are not flushed."""
        missing = []
        for index in indexes:
            damage = self.directory.damaged.get((topic.name, index))
            if damage is not None:
                log.error("%s-%d is damaged and not served: %s", topic.name, index, damage)
            elif (topic.name, index) not in self.directory.logs:
                missing.append(index)
        if missing:
            self.directory.create_all(topic.name, missing, config, self._now_ms(), flush=False)
        return len(missing)

    def take_out(self, name: str) -> list[Partition]:
        """Remove a topic's partitions from service and return them. Their files stay."""
        self.topic_names.pop(self.catalog.topics[name].topic_id, None)
        return self.partitions.pop(name, [])

    def delete_directories(self, topic: Topic, start: int = 0) -> Generator[None, None, list[Path]]:
        """Rename the directories of a topic's partitions from `start` on, a slice at each step.

        Returns them for `purge_deleted`. Raises StorageError.
        """
        doomed = []
        directory = self.directory
        for first in range(start, topic.partition_count, SLICE_PARTITIONS):
            keys = ((topic.name, index) for index in range(first, first + SLICE_PARTITIONS))
            stored = [key for key in keys if key in directory.logs or key in directory.damaged]
            doomed += directory.delete_all(stored)
            yield
        return doomed

    # --- looking up

    def topic(self, name: str) -> Topic:
        """Return a topic's entry in the catalog. Raises KafkaError 3 if there is no such topic."""
        topic = self.catalog.topics.get(name)
        if topic is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        return topic

    def topic_name(self, topic_id: bytes) -> str:
        """Return the name of a topic. Raises KafkaError 100 for an id that no topic has."""
        name = self.topic_names.get(topic_id)
        if name is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_ID, topic_id.hex())
        return name

    def partition(self, topic: str, index: int) -> Partition:
        """Return a partition. Raises KafkaError 3 if it does not exist."""
        partitions = self.partitions.get(topic)
        if partitions is None or not 0 <= index < len(partitions):
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{index}")
        return partitions[index]

    def all_partitions(self) -> Iterator[Partition]:
        """Yield the partitions of all topics."""
        for partitions in self.partitions.values():
            yield from partitions

    # --- settings

    @property
    def dynamic(self) -> DynamicOverrides:
        """The settings that admin clients have changed.

        The brokers share one config: the first broker's overrides count.
        """
        stored = self.catalog.broker_overrides
        return DynamicOverrides(stored.get(str(self.started_with.broker_id), {}), stored.get("", {}))

    def topic_config(self, topic: Topic) -> TopicConfig:
        """Return the settings in force for a topic."""
        return topic_config(self.config, topic.overrides)

    def apply_settings(self, topic: Topic) -> None:
        """Use the settings of a topic's catalog entry from now on."""
        settings = self.topic_config(topic)
        for partition in self.partitions.get(topic.name, ()):  # a half-deleted topic has no partitions
            partition.settings = settings
            if partition.log is not None:
                partition.log.configure(settings.log)
        self.notify(topic.name)

    def apply_broker_overrides(self) -> None:
        """Use what the catalog says about brokers from now on."""
        self.config = with_dynamic(self.started_with, self.dynamic)
        for topic in self.catalog.topics.values():
            self.apply_settings(topic)

    def notify(self, name: str) -> None:
        """Call the listeners: a topic was created, changed or deleted."""
        for listener in self.topic_listeners:
            listener(name)

    # --- closing

    def close(self) -> None:
        """Save the producers' states and close all logs. Raises StorageError."""
        for partition in self.all_partitions():
            if partition.log is not None and partition.log.has_files:
                _save_producers(partition, partition.log)
        try:
            self.directory.close()
        except StorageError as error:
            log.error("not closed cleanly, the next start repairs it: %s", error)
            raise


def _store_topic_id(stored: PartitionLog, topic: Topic) -> None:
    """Write the topic's id into the partition's directory, as Kafka does; an empty one gets it later."""
    if not stored.has_files and (stored.was_new or not (stored.path / partition_metadata.FILE_NAME).exists()):
        return
    if partition_metadata.read(stored.path) != topic.topic_id:
        partition_metadata.write(stored.path, topic.topic_id, stored.file_system)


def _save_producers(partition: Partition, stored: PartitionLog) -> None:
    try:
        producer_restart.save(partition.producers, stored)
    except StorageError as error:
        log.error("producers of %s are not saved, the next start reads the log: %s", partition, error)


def new_cluster_id() -> str:
    """Return a random id as Kafka writes it: 16 bytes in 22 characters, the first of which is no dash."""
    while True:
        text = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text

"""Keeps the topics of the target like those of the source: creates topics, adds partitions, copies settings.

Topics and partitions that only the target has stay. A setting that is removed in the source while the mirror
runs is removed in the target.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ottla.admin import Admin, ConfigSource, NewPartitions, NewTopic, TopicDescription, topic_resource
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError
from ottla.model.topic_partition import TopicAndPartition

log = logging.getLogger(__name__)

LOCAL_SETTINGS = frozenset(
    {
        # They belong to the cluster, not to the data of a topic.
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
        "unclean.leader.election.enable",
        "remote.storage.enable",
        # The target has its own formats, and records keep their timestamps.
        "message.format.version",
        "message.timestamp.type",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
    }
)


@contextmanager
def ignoring(code: Code) -> Iterator[None]:
    """Ignore this error code: another member of the mirror's group was faster."""
    try:
        yield
    except KafkaError as error:
        if error.code != code:
            raise


def check_clusters(source: Admin, target: Admin) -> None:
    """Raise ConfigError if both are the same cluster: a topic would be copied into itself without end."""
    cluster_id = source.describe_cluster().cluster_id
    if cluster_id and cluster_id == target.describe_cluster().cluster_id:
        raise ConfigError(
            f"source and target are the same cluster, {cluster_id}: each topic would be copied into itself. "
            "Give another target, or a handler that gives records other topics"
        )


class TopicFollower:
    """Thread-safe. The caller closes both Admins."""

    def __init__(self, source: Admin, target: Admin, allows: Callable[[str], bool]) -> None:
        self._source = source
        self._target = target
        self._allows = allows
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._settings: dict[str, Mapping[str, str]] = {}

    def prepare(self, topic_partition: TopicAndPartition) -> None:
        """Make sure that the target has the partition. Raises OttlaError."""
        if topic_partition.partition >= self._counts.get(topic_partition.topic, 0):
            self.follow()

    def follow(self) -> None:
        """Compare all topics once. Raises OttlaError if a cluster does not answer."""
        with self._lock:
            wanted = {
                name: topic
                for name, topic in self._source.describe_topics().items()
                if self._allows(name) and not topic.is_internal and not topic.is_marked_for_deletion
            }
            existing = self._target.describe_topics()
            self._create([topic for name, topic in wanted.items() if name not in existing])
            for name, topic in wanted.items():
                count = len(existing[name].partitions) if name in existing else len(topic.partitions)
                if count < len(topic.partitions):
                    self._grow(topic, count)
            self._follow_settings(wanted)
            self._counts = {name: len(topic.partitions) for name, topic in wanted.items()}

    def _grow(self, topic: TopicDescription, before: int) -> None:
        count = len(topic.partitions)
        with ignoring(Code.INVALID_PARTITIONS):
            self._target.create_partitions(NewPartitions(topic.name, count))
            log.info("topic %s has %d partitions now, not %d", topic.name, count, before)

    def _create(self, topics: list[TopicDescription]) -> None:
        if not topics:
            return
        brokers = len(self._target.describe_cluster().brokers)
        for topic in topics:
            replicas = max(1, min(topic.replication_factor, brokers))
            new = NewTopic(topic.name, len(topic.partitions), replicas)
            with ignoring(Code.TOPIC_ALREADY_EXISTS):
                self._target.create_topics(new)
                log.info("created topic %s with %d partitions", topic.name, len(topic.partitions))

    def _follow_settings(self, topics: Mapping[str, TopicDescription]) -> None:
        resources = [topic_resource(name) for name in topics]
        if not resources:
            return
        try:
            configs = self._source.describe_configs(resources)
        except OttlaError as error:
            log.warning("settings of topics are not followed this time: %s", error)
            return
        for resource, entries in configs.items():
            settings = {
                name: entry.value
                for name, entry in entries.items()
                if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
                and entry.value is not None
                and not entry.is_sensitive
                and name not in LOCAL_SETTINGS
            }
            self._set(resource.name, settings)

    def _set(self, topic: str, settings: Mapping[str, str]) -> None:
        """Set the settings one by one: a setting that the target does not know must not block the others."""
        before = self._settings.get(topic, {})
        changes: dict[str, str | None] = {name: None for name in before if name not in settings}
        changes |= {name: value for name, value in settings.items() if before.get(name) != value}
        for name, value in changes.items():
            try:
                self._target.alter_configs(topic_resource(topic), {name: value})
            except OttlaError as error:
                log.warning("topic %s: %s=%s is not taken by the target: %s", topic, name, value, error)
        if changes:
            log.info(
                "topic %s: set %s", topic, ", ".join(f"{name}={value}" for name, value in changes.items())
            )
        self._settings[topic] = settings

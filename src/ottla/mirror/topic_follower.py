"""Topics of the target as those of the source: made, given partitions, and given settings.

Nothing is ever taken away: topics and partitions that only the target has stay. A setting that is taken back
in the source while the mirror runs is taken back in the target.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ottla.admin import Admin, ConfigSource, NewPartitions, NewTopic, TopicDescription, topic_resource
from ottla.fetching import TopicAndPartition
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError

log = logging.getLogger(__name__)

LOCAL_SETTINGS = frozenset(
    {
        # Of a cluster, not of a topic's data.
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
        "unclean.leader.election.enable",
        "remote.storage.enable",
        # The target has formats of its own, and keeps the times that records have.
        "message.format.version",
        "message.timestamp.type",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
    }
)


@contextmanager
def unless(code: Code) -> Iterator[None]:
    """Nothing is wrong if the answer is this: another member of the mirror's group was quicker."""
    try:
        yield
    except KafkaError as error:
        if error.code != code:
            raise


class TopicFollower:
    """Thread-safe. Owns neither Admin."""

    def __init__(self, source: Admin, target: Admin, allows: Callable[[str], bool]) -> None:
        self._source = source
        self._target = target
        self._allows = allows
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._settings: dict[str, Mapping[str, str]] = {}

    def prepare(self, place: TopicAndPartition) -> None:
        """See to it that the target has the partition. Raises OttlaError."""
        if place.partition >= self._counts.get(place.topic, 0):
            self.follow()

    def follow(self) -> None:
        """Look at all topics once. Raises OttlaError if a cluster does not answer."""
        with self._lock:
            wanted = {
                name: topic
                for name, topic in self._source.describe_topics().items()
                if self._allows(name) and not topic.is_internal and not topic.is_marked_for_deletion
            }
            there = self._target.describe_topics()
            self._make([topic for name, topic in wanted.items() if name not in there])
            for name, topic in wanted.items():
                count = len(there[name].partitions) if name in there else len(topic.partitions)
                if count < len(topic.partitions):
                    self._grow(topic, count)
            self._follow_settings(wanted)
            self._counts = {name: len(topic.partitions) for name, topic in wanted.items()}

    def _grow(self, topic: TopicDescription, before: int) -> None:
        count = len(topic.partitions)
        with unless(Code.INVALID_PARTITIONS):
            self._target.create_partitions(NewPartitions(topic.name, count))
            log.info("topic %s has %d partitions now, not %d", topic.name, count, before)

    def _make(self, topics: list[TopicDescription]) -> None:
        if not topics:
            return
        brokers = len(self._target.describe_cluster().brokers)
        for topic in topics:
            replicas = max(1, min(topic.replication_factor, brokers))
            new = NewTopic(topic.name, len(topic.partitions), replicas)
            with unless(Code.TOPIC_ALREADY_EXISTS):
                self._target.create_topics(new)
                log.info("made topic %s with %d partitions", topic.name, len(topic.partitions))

    def _follow_settings(self, topics: Mapping[str, TopicDescription]) -> None:
        resources = [topic_resource(name) for name in topics]
        if not resources:
            return
        try:
            found = self._source.describe_configs(resources)
        except OttlaError as error:
            log.warning("settings of topics are not followed this time: %s", error)
            return
        for resource, entries in found.items():
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
        """One by one: a setting that the target does not know must not keep the others away."""
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

"""The topics of the broker, and the settings of single groups, as the group coordinator sees them."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.groups.coordinator.consumer_groups.consumer_groups import GroupOverrides
from ottla.broker.groups.coordinator.consumer_groups.topics import TopicFacts
from ottla.broker.settings.config_view import ConfigResourceType
from ottla.broker.settings.group_table import group_setting
from ottla.broker.storage.topic_store import TopicStore
from ottla.model.topic_partition import INTERNAL_TOPICS

GROUP_TIMES = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)


class ClusterTopics:
    """A `TopicsView` of the topics that exist now. Owned by the loop."""

    def __init__(self, store: TopicStore) -> None:
        self._store = store

    @property
    def version(self) -> int:
        """The number of changes so far."""
        return self._store.catalog.topics_version

    def by_name(self, name: str) -> TopicFacts | None:
        """Return a topic, or None."""
        topic = self._store.catalog.topics.get(name)
        if topic is None or topic.is_deleting:
            return None
        return TopicFacts(name, topic.topic_id, topic.partition_count)

    def by_id(self, topic_id: bytes) -> TopicFacts | None:
        """Return a topic, or None."""
        name = self._store.topic_names.get(topic_id)
        return None if name is None else self.by_name(name)

    def racks(self, name: str) -> Iterable[Iterable[str]]:
        """Return the racks of the replicas of each of a topic's partitions; nothing if brokers have none."""
        rack_of = self._store.config.rack_of
        if not self._store.config.racks:
            return []
        replicas = self._store.catalog.topics[name].replicas
        return [filter(None, map(rack_of, of_partition)) for of_partition in replicas]

    def names(self) -> Iterable[str]:
        """Return the names of all topics but Kafka's own: a group that reads its own commits never ends."""
        topics = self._store.catalog.topics.values()
        return [topic.name for topic in topics if not topic.is_deleting and topic.name not in INTERNAL_TOPICS]

    def overrides(self, group_id: str) -> GroupOverrides:
        """Return the times of a group: its own, or those that the broker has now."""
        stored = self._store.catalog.entity(ConfigResourceType.GROUP.name, group_id)
        return {name: group_setting(name, stored, self._store.config) for name in GROUP_TIMES}

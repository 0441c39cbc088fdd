"""What one member sees of its group, and how it is read from ZooKeeper.

Nodes are read one after the other, so they are not of one moment; the watches that are set by reading report
every later change. A node that cannot be decoded counts as missing and is listed with its path: one broken
registration must not stop a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from ottla.consumer.classic.assignors import AssignmentInput
from ottla.consumer.classic.effects import Children, QueryPartitions, Read, Steps
from ottla.consumer.classic.identity import ConsumerIdString, ConsumerThreadId, thread_ids
from ottla.consumer.classic.topic_count import TopicCount, topic_count_of
from ottla.model.errors import ConfigError, OttlaError
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import decode_registration
from ottla.zookeeper.topic_znodes import decode_assignment
from ottla.zookeeper.zookeeper_errors import ZnodeError


class NotRegistered(OttlaError):
    """Our registration does not exist in ZooKeeper (any more)."""


@dataclass(frozen=True)
class GroupView:
    """The group at one moment.

    `members`: consumer id → topic → number of streams. `partitions`: topic → its sorted partitions.
    `broken`: path → why the node could not be decoded. `topics`: all topics, if a filter had to be applied.
    """

    members: Mapping[ConsumerIdString, Mapping[str, int]]
    partitions: Mapping[str, tuple[int, ...]]
    has_brokers: bool
    broken: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] | None = None

    def assignment_input(self) -> AssignmentInput:
        """Return the input for an assignor."""
        threads: dict[str, list[ConsumerThreadId]] = {}
        for consumer, counts in self.members.items():
            for topic, count in counts.items():
                threads.setdefault(topic, []).extend(thread_ids(consumer, count))
        return AssignmentInput(
            {topic: sorted(streams, key=str) for topic, streams in sorted(threads.items())}, self.partitions
        )


@dataclass(frozen=True)
class ViewRules:
    """What has to be read of the group.

    `needs_all_topics`: also read topics that only other members subscribe to. `topics_from_brokers`: brokers
    are asked for the topics, because ZooKeeper serves only the group.
    """

    group_id: str
    consumer: ConsumerIdString
    exclude_internal_topics: bool = True
    needs_all_topics: bool = False
    topics_from_brokers: bool = False


def read_group(rules: ViewRules) -> Steps[GroupView]:
    """Read the group and set watches. Raises NotRegistered."""
    broken: dict[str, str] = {}
    counts = yield from _topic_counts(rules, broken)
    if rules.consumer not in counts:
        raise NotRegistered(f"{paths.consumer(rules.group_id, rules.consumer)}: the registration is gone")
    topics: tuple[str, ...] | None = None
    if any(count.is_wildcard for count in counts.values()):
        topics = yield from _topics(rules, broken)
    members = {
        consumer: count.stream_counts(topics or (), exclude_internal_topics=rules.exclude_internal_topics)
        for consumer, count in counts.items()
    }
    wanted = chain.from_iterable(members.values()) if rules.needs_all_topics else members[rules.consumer]
    names = tuple(sorted(set(wanted)))
    if rules.topics_from_brokers:
        partitions = yield QueryPartitions(names)
        return GroupView(members, partitions, has_brokers=True, broken=broken, topics=topics)
    partitions = {}
    for topic in names:
        partitions[topic] = yield from _partitions(topic, broken)
    has_brokers = yield from _has_brokers()
    return GroupView(members, partitions, has_brokers, broken, topics)


def _topics(rules: ViewRules, broken: dict[str, str]) -> Steps[tuple[str, ...]]:
    if rules.topics_from_brokers:
        return tuple((yield QueryPartitions()))
    topics = []
    for name in (yield Children(paths.TOPICS, watched=True)):
        try:
            topics.append(paths.checked_topic(name))
        except ConfigError as error:
            path = paths.child(paths.TOPICS, name)
            broken[path] = f"{path}: {error}"
    return tuple(topics)


def _topic_counts(rules: ViewRules, broken: dict[str, str]) -> Steps[dict[ConsumerIdString, TopicCount]]:
    names: tuple[str, ...] = yield Children(paths.consumer_ids(rules.group_id), watched=True)
    counts = {}
    for name in names:
        path = paths.consumer(rules.group_id, name)
        node = yield Read(path, watched=True)
        if node is None:
            continue  # it left after we listed it; the watch reports that
        try:
            counts[name] = topic_count_of(decode_registration(path, node.data))
        except ZnodeError as error:
            broken[path] = str(error)
        except ConfigError as error:
            broken[path] = f"{path}: {error}"
    return counts


def _partitions(topic: str, broken: dict[str, str]) -> Steps[tuple[int, ...]]:
    """Return the partitions of a topic; () if the topic does not exist yet or its node is broken."""
    path = paths.topic(topic)
    node = yield Read(path, watched=True)
    if node is None:
        return ()
    try:
        return tuple(sorted(decode_assignment(path, node.data).partitions))
    except ZnodeError as error:
        broken[path] = str(error)
        return ()


def _has_brokers() -> Steps[bool]:
    """Return whether any broker is registered. A watch is set only while there is none.

    Later the fetchers notice by themselves when leaders move.
    """
    if (yield Children(paths.BROKER_IDS)):
        return True
    return bool((yield Children(paths.BROKER_IDS, watched=True)))

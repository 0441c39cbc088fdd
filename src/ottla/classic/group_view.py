"""What one member sees of its group at one moment, and how it is read from ZooKeeper.

Reads are one by one and not of one moment; the watches that they leave tell of whatever changes behind them.
A node that cannot be read counts as not there, and is listed with its path: one broken registration shall not
stop a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from ottla.classic.assignors import AssignmentInput
from ottla.classic.effects import AskBrokers, Children, Read, Steps
from ottla.classic.identity import ConsumerIdString, ConsumerThreadId, thread_ids
from ottla.classic.topic_count import TopicCount, topic_count_of
from ottla.model.errors import ConfigError, OttlaError
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import decode_registration
from ottla.zookeeper.errors import ZnodeError
from ottla.zookeeper.topic_znodes import decode_assignment


class NotRegistered(OttlaError):
    """Our registration is not in ZooKeeper (any more)."""


@dataclass(frozen=True)
class GroupView:
    """`members`: topic → number of streams, by member. `partitions`: the sorted ones by topic.

    `broken`: what could not be read, by path. `topics`: all that there are, if a filter had to be applied.
    """

    members: Mapping[ConsumerIdString, Mapping[str, int]]
    partitions: Mapping[str, tuple[int, ...]]
    has_brokers: bool
    broken: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] | None = None

    def assignment_input(self) -> AssignmentInput:
        """As assignors want it."""
        threads: dict[str, list[ConsumerThreadId]] = {}
        for consumer, counts in self.members.items():
            for topic, count in counts.items():
                threads.setdefault(topic, []).extend(thread_ids(consumer, count))
        return AssignmentInput(
            {topic: sorted(found, key=str) for topic, found in sorted(threads.items())}, self.partitions
        )


@dataclass(frozen=True)
class ViewRules:
    """What of the group has to be read. `needs_all_topics`: also those that only others subscribe to.

    `asks_brokers`: topics are not in ZooKeeper, which is there for the group only.
    """

    group_id: str
    consumer: ConsumerIdString
    exclude_internal_topics: bool = True
    needs_all_topics: bool = False
    asks_brokers: bool = False


def read_group(rules: ViewRules) -> Steps[GroupView]:
    """Read the group, leaving watches. Raises NotRegistered."""
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
    if rules.asks_brokers:
        return GroupView(members, (yield AskBrokers(names)), has_brokers=True, broken=broken, topics=topics)
    partitions = {}
    for topic in names:
        partitions[topic] = yield from _partitions(topic, broken)
    has_brokers = yield from _has_brokers()
    return GroupView(members, partitions, has_brokers, broken, topics)


def _topics(rules: ViewRules, broken: dict[str, str]) -> Steps[tuple[str, ...]]:
    if rules.asks_brokers:
        return tuple((yield AskBrokers()))
    found = []
    for name in (yield Children(paths.TOPICS, watched=True)):
        try:
            found.append(paths.checked_topic(name))
        except ConfigError as error:
            path = paths.child(paths.TOPICS, name)
            broken[path] = f"{path}: {error}"
    return tuple(found)


def _topic_counts(rules: ViewRules, broken: dict[str, str]) -> Steps[dict[ConsumerIdString, TopicCount]]:
    names: tuple[str, ...] = yield Children(paths.consumer_ids(rules.group_id), watched=True)
    counts = {}
    for name in names:
        path = paths.consumer(rules.group_id, name)
        node = yield Read(path, watched=True)
        if node is None:
            continue  # it left after we listed it, and the watch will tell
        try:
            counts[name] = topic_count_of(decode_registration(path, node.data))
        except ZnodeError as error:
            broken[path] = str(error)
        except ConfigError as error:
            broken[path] = f"{path}: {error}"
    return counts


def _partitions(topic: str, broken: dict[str, str]) -> Steps[tuple[int, ...]]:
    """None for a topic that is not there yet, or that cannot be read."""
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
    """Brokers are watched only while there are none: leaders that move are the fetchers' affair."""
    if (yield Children(paths.BROKER_IDS)):
        return True
    return bool((yield Children(paths.BROKER_IDS, watched=True)))

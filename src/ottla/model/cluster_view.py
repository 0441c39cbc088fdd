"""What a client knows of a cluster at one time: brokers, topics, leaders. Frozen; a change is a new view.

Answers come late and from brokers that are behind, so views are put together by rules (`updated`):

- Brokers are those of the newest answer. One that an answer leaves out is down, or was taken away.
- Leader epochs never go back. An answer with an older epoch for a partition comes from a broker that has
  yet to hear of the change; what was known stays. Brokers before 2.3 tell no epochs (-1): the last one wins.
- Another topic id is another topic of the same name: its epochs begin anew.
- A topic that an answer tells an error of keeps the partitions that were known, and carries the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from ottla.model.address import Address
from ottla.model.error_codes import Code

NO_LEADER = -1
NO_EPOCH = -1
NO_CONTROLLER = -1
NO_TOPIC_ID = bytes(16)


class BrokerNode(NamedTuple):
    """A broker and where clients find it, as the cluster tells it."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        """Where it listens."""
        return Address(self.host, self.port)


class PartitionLeader(NamedTuple):
    """Who leads a partition, since which epoch (-1: the broker is too old to tell)."""

    node: BrokerNode
    epoch: int


class LeaderHint(NamedTuple):
    """What Fetch and Produce tell a client that asked the wrong broker (KIP-951)."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition. `leader` is a broker's id or NO_LEADER; `error` is a Code, 0 if all is well."""

    index: int
    leader: int
    leader_epoch: int = NO_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    error: int = Code.NONE


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic, its partitions by number. With an `error` they are those that were known before it."""

    name: str
    topic_id: bytes = NO_TOPIC_ID
    partitions: tuple[PartitionView, ...] = ()
    error: int = Code.NONE
    is_internal: bool = False

    def partition(self, index: int) -> PartitionView | None:
        """One partition; None if the topic has no such."""
        if index < len(self.partitions) and self.partitions[index].index == index:
            return self.partitions[index]  # they are numbered from 0, as good as always
        return next((one for one in self.partitions if one.index == index), None)


def _nothing() -> Mapping[str, TopicView]:
    return MappingProxyType({})


@dataclass(frozen=True)
class ClusterView:
    """`fetched_at_ms` is of the clock of whoever made the view; `is_whole`: it has every topic there is."""

    brokers: Mapping[int, BrokerNode]
    topics: Mapping[str, TopicView] = field(default_factory=_nothing)
    controller_id: int = NO_CONTROLLER
    cluster_id: str | None = None
    fetched_at_ms: float = 0.0
    is_whole: bool = False

    def leader_of(self, topic: str, partition: int) -> PartitionLeader | None:
        """Who leads a partition; None if nobody does, or if that is not known here."""
        found = self.partition(topic, partition)
        node = self.brokers.get(found.leader) if found is not None else None
        return PartitionLeader(node, found.leader_epoch) if found is not None and node is not None else None

    def partition(self, topic: str, partition: int) -> PartitionView | None:
        """What is known of a partition; None if nothing is."""
        known = self.topics.get(topic)
        return known.partition(partition) if known is not None else None

    @property
    def controller(self) -> BrokerNode | None:
        """Who does the administration; None where brokers do not tell (before 0.10)."""
        return self.brokers.get(self.controller_id)

    @cached_property
    def topics_by_id(self) -> Mapping[bytes, TopicView]:
        """Topics that have ids, by them: newer requests name topics so."""
        return MappingProxyType(
            {topic.topic_id: topic for topic in self.topics.values() if topic.topic_id != NO_TOPIC_ID}
        )

    def updated(self, newer: ClusterView) -> ClusterView:
        """This view and what a newer answer tells, by the rules above.

        A newer view that is whole takes away the topics that it does not have. Another cluster's view takes
        the place of this one.
        """
        if self.cluster_id and newer.cluster_id and self.cluster_id != newer.cluster_id:
            return newer
        topics = {} if newer.is_whole else dict(self.topics)
        for name, topic in newer.topics.items():
            known = self.topics.get(name)
            topics[name] = topic if known is None else _newer_topic(known, topic)
        return replace(
            newer,
            topics=MappingProxyType(topics),
            cluster_id=newer.cluster_id or self.cluster_id,
            is_whole=newer.is_whole or self.is_whole,
        )

    def hinted(self, hints: Iterable[LeaderHint], nodes: Iterable[BrokerNode] = ()) -> ClusterView:
        """This view with the leaders that hints tell, where these are newer; itself if none is."""
        brokers = {**self.brokers, **{node.broker_id: node for node in nodes}}
        topics = dict(self.topics)
        is_newer = False
        for hint in hints:
            topic = topics.get(hint.topic)
            known = topic.partition(hint.partition) if topic is not None else None
            if topic is None or known is None or hint.leader not in brokers:
                continue
            if hint.leader_epoch > known.leader_epoch:
                told = replace(known, leader=hint.leader, leader_epoch=hint.leader_epoch, error=Code.NONE)
                topics[hint.topic] = _with_partition(topic, told)
                is_newer = True
        if not is_newer:
            return self
        return replace(self, brokers=MappingProxyType(brokers), topics=MappingProxyType(topics))


EMPTY = ClusterView(brokers=MappingProxyType({}))
"""What is known before the first answer."""


def _newer_topic(known: TopicView, told: TopicView) -> TopicView:
    if told.error != Code.NONE and not told.partitions:
        return replace(known, error=told.error)
    if NO_TOPIC_ID not in {known.topic_id, told.topic_id} and known.topic_id != told.topic_id:
        return told
    merged = {one.index: one for one in told.partitions}
    for one in known.partitions:
        if one.index in merged:
            merged[one.index] = _newer_partition(one, merged[one.index])
        elif told.topic_id != NO_TOPIC_ID:
            merged[one.index] = one  # a topic never has fewer: the answer is from before it got more
    return replace(told, partitions=tuple(merged[index] for index in sorted(merged)))


def _newer_partition(known: PartitionView, told: PartitionView) -> PartitionView:
    return known if NO_EPOCH < told.leader_epoch < known.leader_epoch else told


def _with_partition(topic: TopicView, partition: PartitionView) -> TopicView:
    return replace(
        topic,
        partitions=tuple(partition if one.index == partition.index else one for one in topic.partitions),
    )

"""What a client knows about a cluster at one time: brokers, topics, leaders. Frozen; a change is a new view.

Responses may be late, and come from brokers that are behind. `updated` merges views by these rules:

- The brokers are those of the newest response. A broker that is missing there is down or was removed.
- Leader epochs never go back. A response with an older epoch for a partition comes from a broker that does
  not know the change yet, and is ignored. Brokers before 2.3 send no epochs (-1): the last response wins.
- A new topic id means another topic of the same name: its epochs start again.
- If a response has an error for a topic, the topic keeps its known partitions and gets the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from ottla.model.address import Address
from ottla.model.error_codes import Code

NO_LEADER = -1
NO_EPOCH = -1
NO_CONTROLLER = -1
NO_TOPIC_ID = bytes(16)


class BrokerNode(NamedTuple):
    """A broker and the address that it advertises."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        """Where the broker listens."""
        return Address(self.host, self.port)


class PartitionLeader(NamedTuple):
    """The broker that leads a partition, and the leader epoch (-1: the broker is too old to send it)."""

    node: BrokerNode
    epoch: int


class LeaderHint(NamedTuple):
    """The leader in a Fetch or Produce response to a client that asked the wrong broker (KIP-951)."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition. `leader` is a broker's id or NO_LEADER; `error` is a Code, 0 for none."""

    index: int
    leader: int
    leader_epoch: int = NO_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    error: int = Code.NONE


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic, its partitions by number. With an `error` they are those known before the error."""

    name: str
    topic_id: bytes = NO_TOPIC_ID
    partitions: tuple[PartitionView, ...] = ()
    error: int = Code.NONE
    is_internal: bool = False

    def partition(self, index: int) -> PartitionView | None:
        """The partition with this number, or None."""
        if index < len(self.partitions) and self.partitions[index].index == index:
            return self.partitions[index]  # the usual case: partitions are numbered from 0
        return next((partition for partition in self.partitions if partition.index == index), None)


def _nothing() -> Mapping[str, TopicView]:
    return MappingProxyType({})


@dataclass(frozen=True)
class ClusterView:
    """`fetched_at_ms` is by the clock of the view's maker; `is_whole`: the view has every topic."""

    brokers: Mapping[int, BrokerNode]
    topics: Mapping[str, TopicView] = field(default_factory=_nothing)
    controller_id: int = NO_CONTROLLER
    cluster_id: str | None = None
    fetched_at_ms: float = 0.0
    is_whole: bool = False

    def leader_of(self, topic: str, partition: int) -> PartitionLeader | None:
        """Return the leader of a partition; None if it has none, or if none is known."""
        known = self.partition(topic, partition)
        node = self.brokers.get(known.leader) if known is not None else None
        return PartitionLeader(node, known.leader_epoch) if known is not None and node is not None else None

    def partition(self, topic: str, partition: int) -> PartitionView | None:
        """Return the view of a partition; None if nothing is known about it."""
        known = self.topics.get(topic)
        return known.partition(partition) if known is not None else None

    @property
    def controller(self) -> BrokerNode | None:
        """The broker for administration; None if brokers do not name it (before 0.10)."""
        return self.brokers.get(self.controller_id)

    def updated(self, newer: ClusterView) -> ClusterView:
        """This view merged with a newer response, by the rules above.

        If the newer view is whole, topics that it lacks are removed. A view of another cluster replaces this
        view.
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
        """This view with the leaders of newer hints; the same view if no hint is newer."""
        brokers = {**self.brokers, **{node.broker_id: node for node in nodes}}
        topics = dict(self.topics)
        is_newer = False
        for hint in hints:
            topic = topics.get(hint.topic)
            known = topic.partition(hint.partition) if topic is not None else None
            if topic is None or known is None or hint.leader not in brokers:
                continue
            if hint.leader_epoch > known.leader_epoch:
                moved = replace(known, leader=hint.leader, leader_epoch=hint.leader_epoch, error=Code.NONE)
                topics[hint.topic] = _with_partition(topic, moved)
                is_newer = True
        if not is_newer:
            return self
        return replace(self, brokers=MappingProxyType(brokers), topics=MappingProxyType(topics))


EMPTY = ClusterView(brokers=MappingProxyType({}))
"""What is known before the first response."""


def _newer_topic(known: TopicView, newer: TopicView) -> TopicView:
    if newer.error != Code.NONE and not newer.partitions:
        return replace(known, error=newer.error)
    if NO_TOPIC_ID not in {known.topic_id, newer.topic_id} and known.topic_id != newer.topic_id:
        return newer
    merged = {partition.index: partition for partition in newer.partitions}
    for partition in known.partitions:
        if partition.index in merged:
            merged[partition.index] = _newer_partition(partition, merged[partition.index])
        elif newer.topic_id != NO_TOPIC_ID:
            # Topics never shrink: the response is older than the new partitions.
            merged[partition.index] = partition
    return replace(newer, partitions=tuple(merged[index] for index in sorted(merged)))


def _newer_partition(known: PartitionView, newer: PartitionView) -> PartitionView:
    return known if NO_EPOCH < newer.leader_epoch < known.leader_epoch else newer


def _with_partition(topic: TopicView, changed: PartitionView) -> TopicView:
    partitions = (changed if known.index == changed.index else known for known in topic.partitions)
    return replace(topic, partitions=tuple(partitions))

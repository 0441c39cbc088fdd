"""What a client knows of the cluster: the view, how old it is, and which leaders are known to be wrong. Pure.

The view is replaced and never edited. Requests for metadata are numbered: if a leader turns out to be stale
while a request is under way, only the next request helps.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.client.reactions import Action, Call, action_for
from ottla.model.cluster_view import (
    EMPTY,
    BrokerNode,
    ClusterView,
    LeaderHint,
    PartitionLeader,
    TopicView,
)
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError

log = logging.getLogger(__name__)


class KnownCluster:
    """Threads that share it need a lock; `view` may be read without."""

    def __init__(self, max_age_ms: float) -> None:
        self.view = EMPTY
        self._max_age_ms = max_age_ms
        self._requested_at_ms: dict[str, float] = {}  # of topics that were requested by name
        self._stale: dict[tuple[str, int], int] = {}  # partition → the request that must be done first

    @property
    def requested(self) -> set[str]:
        """The topics that were requested by name."""
        return set(self._requested_at_ms)

    def forget(self, topics: Iterable[str]) -> None:
        """Stop tracking these topics: they are not used any more."""
        for name in topics:
            self._requested_at_ms.pop(name, None)

    def old_topics(self, now_ms: float) -> list[str]:
        """Return the topics whose last request is too long ago."""
        return [name for name, at_ms in self._requested_at_ms.items() if self._is_old(at_ms, now_ms)]

    def _is_old(self, at_ms: float, now_ms: float) -> bool:
        return now_ms - at_ms >= self._max_age_ms

    def outdated(self, topic: str, partition: int | None) -> str:
        """Return why this topic must be requested before it is used; "" if it need not be."""
        if partition is not None and (topic, partition) in self._stale:
            return f"the leader of partition {partition} is gone"
        return "not known yet" if topic not in self._requested_at_ms and topic not in self.view.topics else ""

    def is_old(self, topic: str, now_ms: float) -> bool:
        """Whether the last request for a known topic is too long ago."""
        return self._is_old(self._requested_at_ms.get(topic, self.view.fetched_at_ms), now_ms)

    def adopt(self, received: ClusterView, names: Iterable[str], number: int) -> None:
        """Use the answer to request `number`, in which these topics were requested by name."""
        before, self.view = self.view, self.view.updated(received)
        if before.cluster_id and before.cluster_id != self.view.cluster_id:
            log.warning("cluster %s is gone: another cluster answers at its addresses", before.cluster_id)
        if before.brokers != self.view.brokers or before.cluster_id != self.view.cluster_id:
            nodes = ", ".join(f"{node.broker_id}={node.address}" for node in self.view.brokers.values())
            log.info("cluster %s: brokers %s", self.view.cluster_id or "(unnamed)", nodes)
        self._requested_at_ms.update(dict.fromkeys(names, received.fetched_at_ms))
        self._stale = {
            (topic, partition): needed
            for (topic, partition), needed in self._stale.items()
            if needed > number or topic not in received.topics
        }

    def invalidate(self, topic: str, partition: int, number: int) -> None:
        """Note that the known leader is wrong until request `number` is done."""
        self._stale[topic, partition] = number

    def learn(self, hints: Iterable[LeaderHint], nodes: Iterable[BrokerNode]) -> ClusterView:
        """Use the leaders in a Fetch or Produce response (KIP-951), if they are newer."""
        hints = tuple(hints)
        before, self.view = self.view, self.view.hinted(hints, nodes)
        for hint in hints:
            if before.leader_of(*hint[:2]) != self.view.leader_of(*hint[:2]):
                self._stale.pop((hint.topic, hint.partition), None)
        return self.view


def sound_topic(view: ClusterView, name: str) -> TopicView:
    """Return a topic that has no error. Raises KafkaError."""
    topic = view.topics.get(name)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
    if topic.error:
        raise KafkaError(topic.error, f"topic {name!r}")
    if not topic.partitions:
        raise KafkaError(Code.LEADER_NOT_AVAILABLE, f"topic {name!r} has no partitions yet")
    return topic


def sound_leader(view: ClusterView, name: str, index: int) -> PartitionLeader:
    """Return the leader of a partition. Raises KafkaError."""
    topic = sound_topic(view, name)
    partition = topic.partition(index)
    if partition is None:
        raise KafkaError(
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {name!r} has {len(topic.partitions)} partitions, and none with number {index}",
        )
    leader = view.leader_of(name, index)
    if leader is None:
        code = partition.error or Code.LEADER_NOT_AVAILABLE
        raise KafkaError(
            code if action_for(code, Call.METADATA) is not Action.NONE else Code.LEADER_NOT_AVAILABLE,
            f"topic {name!r}, partition {index}, replicas {list(partition.replicas)}",
        )
    return leader

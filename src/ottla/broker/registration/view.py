"""What ZooKeeper is told about the brokers of this process: frozen values, taken on their loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.broker.catalog import Replicas
from ottla.broker.cluster import Cluster


@dataclass(frozen=True, slots=True)
class BrokersView:
    """The brokers that are up, with the address that clients are told, and the one that is controller."""

    addresses: Mapping[int, tuple[str, int]]
    controller_id: int


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition. `in_sync` are those of its brokers that are up: they share one log."""

    replicas: Replicas
    leader: int
    leader_epoch: int
    in_sync: Replicas


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic. Another id under the same name is another topic."""

    topic_id: bytes
    partitions: tuple[PartitionView, ...]
    overrides: Mapping[str, str]

    @property
    def replicas(self) -> tuple[Replicas, ...]:
        """The brokers of each partition, the preferred one first."""
        return tuple(partition.replicas for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Topics that were asked for; None is one that does not exist."""

    brokers: BrokersView
    topics: Mapping[str, TopicView | None]


def cluster_view(cluster: Cluster, names: Iterable[str] | None) -> ClusterView:
    """What there is now; of all topics if no names are given. On the loop."""
    addresses = {node.broker_id: (node.host, node.advertised_port) for node in cluster.nodes.values()}
    wanted = list(cluster.partitions) if names is None else names
    return ClusterView(
        BrokersView(addresses, cluster.controller_id), {name: _topic_view(cluster, name) for name in wanted}
    )


def _topic_view(cluster: Cluster, name: str) -> TopicView | None:
    topic = cluster.catalog.topics.get(name)
    if topic is None or topic.is_deleting:
        return None
    partitions = tuple(
        PartitionView(
            partition.replicas,
            partition.leader,
            partition.leader_epoch,
            tuple(broker_id for broker_id in partition.replicas if broker_id in cluster.nodes),
        )
        for partition in cluster.partitions[name]
    )
    return TopicView(topic.topic_id, partitions, topic.overrides)

"""What is registered in ZooKeeper about the brokers of this process: frozen values, taken on their loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.broker.cluster import Cluster
from ottla.broker.storage.catalog import Replicas
from ottla.broker.storage.leaders import Leaders
from ottla.broker.storage.topic_store import TopicStore
from ottla.model.address import Address


@dataclass(frozen=True, slots=True)
class RegisteredBrokers:
    """The brokers that are up, with the addresses for clients, and the controller."""

    addresses: Mapping[int, Address]
    controller_id: int


@dataclass(frozen=True, slots=True)
class RegisteredPartition:
    """One partition. `in_sync` are its brokers that are up: they share one log."""

    replicas: Replicas
    leader: int
    leader_epoch: int
    in_sync: Replicas


@dataclass(frozen=True, slots=True)
class RegisteredTopic:
    """One topic. Another id under the same name is another topic."""

    topic_id: bytes
    partitions: tuple[RegisteredPartition, ...]
    overrides: Mapping[str, str]

    @property
    def replicas(self) -> tuple[Replicas, ...]:
        """The brokers of each partition, the preferred first."""
        return tuple(partition.replicas for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class RegisteredView:
    """The brokers, and some topics by name; None for a topic that does not exist."""

    brokers: RegisteredBrokers
    topics: Mapping[str, RegisteredTopic | None]


def cluster_view(cluster: Cluster, names: Iterable[str] | None) -> RegisteredView:
    """Return the present state of the named topics, or of all for None. Called on the loop."""
    leaders, store = cluster.leaders, cluster.store
    wanted = list(store.partitions) if names is None else names
    return RegisteredView(
        RegisteredBrokers(dict(leaders.brokers), leaders.controller_id),
        {name: _topic_view(store, leaders, name) for name in wanted},
    )


def _topic_view(store: TopicStore, leaders: Leaders, name: str) -> RegisteredTopic | None:
    topic = store.catalog.topics.get(name)
    if topic is None or topic.is_deleting:
        return None
    partitions = tuple(
        RegisteredPartition(
            partition.replicas,
            partition.leader,
            partition.leader_epoch,
            tuple(leaders.alive(partition.replicas)),
        )
        for partition in store.partitions[name]
    )
    return RegisteredTopic(topic.topic_id, partitions, topic.overrides)

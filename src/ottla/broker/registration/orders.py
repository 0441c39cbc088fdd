"""Orders of Kafka's older tools, as values, and how the loop carries them out.

The tools write into ZooKeeper. The thread that reads it owns nothing of the broker: it makes an order of each
node, and the loop carries it out with the functions that serve admin clients.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.broker.cluster import Cluster
from ottla.broker.settings.topic_settings import ConfigRefused, topic_config
from ottla.broker.storage.catalog import Replicas
from ottla.log import checkpoints
from ottla.log.file_system import REAL
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, StorageError
from ottla.model.topic_partition import INTERNAL_TOPICS

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CreateTopicOrder:
    """Create a topic. Partitions whose brokers do not exist here have no leader."""

    name: str
    replicas: tuple[Replicas, ...]
    overrides: Mapping[str, str]
    topic_id: bytes = b""


@dataclass(frozen=True, slots=True)
class GrowTopicOrder:
    """Add partitions after the first `count`; nothing if there are more already."""

    name: str
    count: int
    replicas: tuple[Replicas, ...]


@dataclass(frozen=True, slots=True)
class ConfigureTopicOrder:
    """Give a topic these settings and no others."""

    name: str
    overrides: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeleteTopicOrder:
    """Delete a topic."""

    name: str


@dataclass(frozen=True, slots=True)
class PreferLeaderOrder:
    """Make the first broker of a partition its leader, if it is up."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class ReassignPartitionOrder:
    """Give a partition to other brokers."""

    topic: str
    partition: int
    replicas: Replicas


@dataclass(frozen=True, slots=True)
class JoinClusterOrder:
    """Take the cluster id that ZooKeeper knows: possible as long as the data directory has no topics."""

    cluster_id: str


Order = (
    CreateTopicOrder
    | GrowTopicOrder
    | ConfigureTopicOrder
    | DeleteTopicOrder
    | PreferLeaderOrder
    | ReassignPartitionOrder
    | JoinClusterOrder
)


def carry_out(cluster: Cluster, order: Order) -> None:
    """Carry out an order, on the loop. Raises KafkaError, ConfigError or StorageError."""
    match order:
        case CreateTopicOrder():
            overrides = _usable(cluster, order.name, order.overrides)
            cluster.topics.create(order.name, order.replicas, overrides, order.topic_id)
        case GrowTopicOrder():
            if cluster.store.topic(order.name).partition_count == order.count:
                cluster.topics.grow(order.name, order.replicas)
        case ConfigureTopicOrder():
            cluster.topics.configure(order.name, _usable(cluster, order.name, order.overrides))
        case DeleteTopicOrder():
            _delete(cluster, order.name)
        case PreferLeaderOrder():
            _prefer(cluster, order)
        case ReassignPartitionOrder():
            _reassign(cluster, order)
        case JoinClusterOrder():
            _join(cluster, order.cluster_id)


def _usable(cluster: Cluster, name: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that this broker knows. Others are logged: the tool that wrote them is gone."""
    usable = {}
    for key, value in overrides.items():
        try:
            topic_config(cluster.store.config, {key: value})
        except ConfigRefused as error:
            log.warning("topic %r in ZooKeeper: the setting is left out: %s", name, error.reason)
        else:
            usable[key] = value
    return usable


def _delete(cluster: Cluster, name: str) -> None:
    if name in INTERNAL_TOPICS:
        raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"topic {name!r} is internal and stays")
    if not cluster.store.config.delete_topic_enable:
        raise KafkaError(Code.TOPIC_DELETION_DISABLED, "delete.topic.enable=false")
    cluster.topics.delete(name)


def _prefer(cluster: Cluster, order: PreferLeaderOrder) -> None:
    partition = cluster.store.partition(order.topic, order.partition)
    preferred = partition.replicas[0] if partition.replicas else partition.leader
    if preferred in cluster.leaders.brokers and preferred != partition.leader:
        cluster.leaders.lead([(partition, preferred)])


def _reassign(cluster: Cluster, order: ReassignPartitionOrder) -> None:
    partition = cluster.store.partition(order.topic, order.partition)
    (replicas,) = cluster.topics.assigned([order.replicas])
    leader = partition.leader if partition.leader in replicas else replicas[0]
    cluster.leaders.move(partition, replicas, leader)


def _join(cluster: Cluster, cluster_id: str) -> None:
    store = cluster.store
    if store.catalog.topics:
        raise ConfigError(
            f"{store.config.data_dir} belongs to cluster {store.cluster_id}, but ZooKeeper at "
            f"{store.config.zookeeper_connect} to cluster {cluster_id}: is zookeeper.connect right? "
            "A chroot such as host:2181/name keeps clusters apart"
        )
    path = store.config.data_dir / checkpoints.META
    try:
        checkpoints.write_properties(
            path, checkpoints.read_properties(path) | {"cluster.id": cluster_id}, REAL
        )
    except OSError as error:
        raise StorageError(f"{path}: cannot write it: {error}") from error
    store.cluster_id = cluster_id
    store.catalog.set_cluster_id(cluster_id)

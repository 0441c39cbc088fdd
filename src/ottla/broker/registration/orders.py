"""What ZooKeeper asks of the brokers, as values, and how the loop carries them out.

Kafka's older tools write their wishes into ZooKeeper. The thread that reads them there owns nothing of the
broker: it makes an order of each, and the loop carries it out with the functions that serve admin clients.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.broker import topics
from ottla.broker.catalog import Replicas
from ottla.broker.cluster import INTERNAL_TOPICS, Cluster
from ottla.broker.topic_settings import ConfigRefused, topic_config
from ottla.log import checkpoints
from ottla.log.file_system import REAL
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, StorageError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Make a topic. Brokers that do not exist stay in its lists: what only they could lead has no leader."""

    name: str
    replicas: tuple[Replicas, ...]
    overrides: Mapping[str, str]
    topic_id: bytes = b""


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """Add partitions behind the first `count`; nothing if there are more already."""

    name: str
    count: int
    replicas: tuple[Replicas, ...]


@dataclass(frozen=True, slots=True)
class ConfigureTopic:
    """Give a topic these settings and no others."""

    name: str
    overrides: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a topic."""

    name: str


@dataclass(frozen=True, slots=True)
class PreferLeader:
    """Let a partition be led by the first of its brokers, if that one is up."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class ReassignPartition:
    """Give a partition to other brokers."""

    topic: str
    partition: int
    replicas: Replicas


@dataclass(frozen=True, slots=True)
class JoinCluster:
    """Take the cluster id that ZooKeeper knows: possible as long as the data directory has no topics."""

    cluster_id: str


Order = (
    CreateTopic | GrowTopic | ConfigureTopic | DeleteTopic | PreferLeader | ReassignPartition | JoinCluster
)


def carry_out(cluster: Cluster, order: Order) -> None:
    """Do it, on the loop; raises KafkaError, ConfigError or StorageError."""
    match order:
        case CreateTopic():
            overrides = _usable(cluster, order.name, order.overrides)
            topics.create(cluster, order.name, order.replicas, overrides, order.topic_id)
        case GrowTopic():
            if cluster.topic(order.name).partition_count == order.count:
                topics.grow(cluster, order.name, order.replicas)
        case ConfigureTopic():
            topics.configure(cluster, order.name, _usable(cluster, order.name, order.overrides))
        case DeleteTopic():
            _delete(cluster, order.name)
        case PreferLeader():
            _prefer(cluster, order)
        case ReassignPartition():
            _reassign(cluster, order)
        case JoinCluster():
            _join(cluster, order.cluster_id)


def _usable(cluster: Cluster, name: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """The settings that this broker knows. The tool that wrote the others has gone and cannot be told."""
    usable = {}
    for key, value in overrides.items():
        try:
            topic_config(cluster.config, {key: value})
        except ConfigRefused as error:
            log.warning("topic %r in ZooKeeper: the setting is left out: %s", name, error.reason)
        else:
            usable[key] = value
    return usable


def _delete(cluster: Cluster, name: str) -> None:
    if name in INTERNAL_TOPICS:
        raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"topic {name!r} is internal and stays")
    if not cluster.config.delete_topic_enable:
        raise KafkaError(Code.TOPIC_DELETION_DISABLED, "delete.topic.enable=false")
    topics.delete(cluster, name)


def _prefer(cluster: Cluster, order: PreferLeader) -> None:
    partition = cluster.partition(order.topic, order.partition)
    preferred = partition.replicas[0] if partition.replicas else partition.leader
    if preferred in cluster.nodes and preferred != partition.leader:
        cluster.lead([(partition, preferred)])


def _reassign(cluster: Cluster, order: ReassignPartition) -> None:
    partition = cluster.partition(order.topic, order.partition)
    missing = [broker_id for broker_id in order.replicas if broker_id not in cluster.nodes]
    if missing or not order.replicas or len(set(order.replicas)) < len(order.replicas):
        what = f"{partition} to brokers {list(order.replicas)}; up are {sorted(cluster.nodes)}"
        raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, what)
    replicas = list(cluster.topic(order.topic).replicas)
    replicas[order.partition] = order.replicas
    cluster.catalog.put([replace(cluster.topic(order.topic), replicas=tuple(replicas))])
    partition.replicas = order.replicas
    # Without a change of leader, this still tells that metadata has changed.
    cluster.lead([] if partition.leader in order.replicas else [(partition, order.replicas[0])])


def _join(cluster: Cluster, cluster_id: str) -> None:
    if cluster.catalog.topics:
        raise ConfigError(
            f"{cluster.config.data_dir} belongs to cluster {cluster.cluster_id}, but ZooKeeper at "
            f"{cluster.config.zookeeper_connect} to cluster {cluster_id}: is zookeeper.connect right? "
            "A chroot such as host:2181/name keeps clusters apart"
        )
    path = cluster.config.data_dir / checkpoints.META
    try:
        checkpoints.write_properties(
            path, checkpoints.read_properties(path) | {"cluster.id": cluster_id}, REAL
        )
    except OSError as error:
        raise StorageError(f"{path}: cannot write it: {error}") from error
    cluster.cluster_id = cluster_id

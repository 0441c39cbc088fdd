"""Where a misdirected client should go instead (KIP-951)."""

from __future__ import annotations

from ottla.broker.cluster import Cluster
from ottla.broker.partition import Partition
from ottla.wire.leader_hint import LeaderIdAndEpoch, NodeEndpoint


def leader_of(partition: Partition) -> LeaderIdAndEpoch:
    """Who leads a partition now."""
    return LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)


def endpoints_of(cluster: Cluster, partitions: list[Partition]) -> list[NodeEndpoint]:
    """Where the leaders of partitions listen."""
    leaders = dict.fromkeys(partition.leader for partition in partitions)
    nodes = [cluster.nodes[broker_id] for broker_id in leaders if broker_id in cluster.nodes]
    return [NodeEndpoint(node_id=node.broker_id, host=node.host, port=node.advertised_port) for node in nodes]

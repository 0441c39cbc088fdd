"""Metadata of topics under Kafka's names, with brokers instead of their ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.model.cluster_view import NO_EPOCH, BrokerNode, ClusterView, PartitionView
from ottla.model.error_codes import Code
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic

_NONE_IS_ALL_SINCE = 1  # before version 1, an empty list requests all topics
_CREATION_FLAG_SINCE = 4
NO_PORT = -1


class PartitionMetadata(NamedTuple):
    """Leader, replicas and in-sync replicas of a partition. `leader` is None while there is none.

        >>> from ottla.consumer.simple import find_leader
        >>> metadata = find_leader("127.0.0.1:9092", "orders", 0)
        >>> metadata.leader.broker_id, [broker.broker_id for broker in metadata.isr]
        (0, [0])

    A replica that is down has the host "", because brokers report only its id. `leader_epoch` counts the
    elections; it is -1 with brokers before 2.3, which do not report it.
    """

    topic: str
    partition_id: int
    leader: BrokerNode | None
    replicas: tuple[BrokerNode, ...] = ()
    isr: tuple[BrokerNode, ...] = ()
    error_code: int = Code.NONE
    leader_epoch: int = NO_EPOCH


class TopicMetadata(NamedTuple):
    """A topic and its partitions.

    >>> from ottla import SimpleConsumer
    >>> with SimpleConsumer("127.0.0.1", 9092) as consumer:
    ...     (orders,) = consumer.topic_metadata("orders")
    >>> orders.topic, len(orders.partitions_metadata)
    ('orders', 1)
    """

    topic: str
    partitions_metadata: tuple[PartitionMetadata, ...]
    error_code: int = Code.NONE


def metadata_request(topics: Sequence[str], version: int, *, may_create: bool) -> MetadataRequest:
    """Return a request for these topics, or for all topics if none is given."""
    wanted = [MetadataTopic(name=name) for name in topics]
    request = MetadataRequest(topics=wanted if wanted or version < _NONE_IS_ALL_SINCE else None)
    if version >= _CREATION_FLAG_SINCE:
        request.allow_auto_topic_creation = may_create
    return request


def topics_metadata(view: ClusterView) -> tuple[TopicMetadata, ...]:
    """Return the metadata of every topic of a view."""
    return tuple(
        TopicMetadata(
            topic.name,
            tuple(_partition(view, topic.name, partition) for partition in topic.partitions),
            topic.error,
        )
        for topic in view.topics.values()
    )


def partition_metadata(view: ClusterView, topic: str, partition: int) -> PartitionMetadata | None:
    """Return the metadata of a partition, or None if the view does not have it."""
    partition_view = view.partition(topic, partition)
    return None if partition_view is None else _partition(view, topic, partition_view)


def _partition(view: ClusterView, topic: str, partition: PartitionView) -> PartitionMetadata:
    return PartitionMetadata(
        topic,
        partition.index,
        view.brokers.get(partition.leader),
        _nodes(view, partition.replicas),
        _nodes(view, partition.isr),
        partition.error,
        partition.leader_epoch,
    )


def _nodes(view: ClusterView, ids: Sequence[int]) -> tuple[BrokerNode, ...]:
    return tuple(view.brokers.get(each) or BrokerNode(each, "", NO_PORT) for each in ids)

"""What a broker tells of topics, under Kafka's names: brokers instead of their ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.model.cluster_view import NO_EPOCH, BrokerNode, ClusterView, PartitionView
from ottla.model.error_codes import Code
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic

_NONE_IS_ALL_SINCE = 1  # before, an empty list asks for all topics
_CREATION_IS_ASKED_SINCE = 4
NO_PORT = -1


class PartitionMetadata(NamedTuple):
    """Who leads a partition and who has copies of it. `leader` is None while nobody leads.

    A replica that is down has the host "": brokers tell its id only. `leader_epoch` counts the leaders; it
    is -1 where brokers do not tell (before 2.3).
    """

    topic: str
    partition_id: int
    leader: BrokerNode | None
    replicas: tuple[BrokerNode, ...] = ()
    isr: tuple[BrokerNode, ...] = ()
    error_code: int = Code.NONE
    leader_epoch: int = NO_EPOCH


class TopicMetadata(NamedTuple):
    """A topic and its partitions."""

    topic: str
    partitions_metadata: tuple[PartitionMetadata, ...]
    error_code: int = Code.NONE


def metadata_request(topics: Sequence[str], version: int, *, may_create: bool) -> MetadataRequest:
    """Of these topics, or of all if there are none."""
    asked = [MetadataTopic(name=name) for name in topics]
    request = MetadataRequest(topics=asked if asked or version < _NONE_IS_ALL_SINCE else None)
    if version >= _CREATION_IS_ASKED_SINCE:
        request.allow_auto_topic_creation = may_create
    return request


def topics_metadata(view: ClusterView) -> tuple[TopicMetadata, ...]:
    """Every topic of a view."""
    return tuple(
        TopicMetadata(
            topic.name,
            tuple(_partition(view, topic.name, one) for one in topic.partitions),
            topic.error,
        )
        for topic in view.topics.values()
    )


def partition_metadata(view: ClusterView, topic: str, partition: int) -> PartitionMetadata | None:
    """One partition of a view; None if it does not have it."""
    found = view.partition(topic, partition)
    return None if found is None else _partition(view, topic, found)


def _partition(view: ClusterView, topic: str, one: PartitionView) -> PartitionMetadata:
    return PartitionMetadata(
        topic,
        one.index,
        view.brokers.get(one.leader),
        _nodes(view, one.replicas),
        _nodes(view, one.isr),
        one.error,
        one.leader_epoch,
    )


def _nodes(view: ClusterView, ids: Sequence[int]) -> tuple[BrokerNode, ...]:
    return tuple(view.brokers.get(one) or BrokerNode(one, "", NO_PORT) for one in ids)

"""Metadata, key 3: the brokers, and the leaders of topics.

Versions: 0 to 13. In 0 an empty list of topics means all; from 1 on null does. From 12 on a topic may be
named by its id. Authorized operations are not told (no ACLs).
Behaviour: a topic that does not exist is made, if auto.create.topics.enable is on and the client does not
forbid it (4 and later), and its leaders are in the same answer: nobody has to ask twice.
"""

from __future__ import annotations

from ottla.broker import topics
from ottla.broker.cluster import INTERNAL_TOPICS, Cluster
from ottla.broker.partition import NO_LEADER, Partition
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.metadata import (
    MetadataBroker,
    MetadataPartitionResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    MetadataTopicResponse,
)
from ottla.wire.versions import VersionRange

IDS_SINCE = 12
"""Before that requests have room for ids, but no answer can do without the name."""


def handle(inquiry: Inquiry, request: MetadataRequest) -> MetadataResponse:
    """Describe what is asked for."""
    cluster = inquiry.cluster
    asks_all = request.topics is None or (inquiry.version == 0 and not request.topics)
    if asks_all:
        found = [_described(cluster, name) for name in cluster.partitions]
    else:
        found = [_found(inquiry, topic, request) for topic in request.topics or ()]
    return MetadataResponse(
        brokers=brokers(cluster),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=found,
    )


def brokers(cluster: Cluster) -> list[MetadataBroker]:
    """All brokers that are up."""
    return [
        MetadataBroker(node_id=node.broker_id, host=node.host, port=node.advertised_port)
        for node in cluster.nodes.values()
    ]


def _found(inquiry: Inquiry, topic: MetadataTopic, request: MetadataRequest) -> MetadataTopicResponse:
    cluster = inquiry.cluster
    if topic.name is None and inquiry.version < IDS_SINCE:
        return MetadataTopicResponse(error_code=Code.INVALID_REQUEST, name="", topic_id=topic.topic_id)
    try:
        name = topic.name if topic.name is not None else cluster.topic_name(topic.topic_id)
        if name not in cluster.partitions:
            topics.check_name(name)
            if not request.allow_auto_topic_creation:
                raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
            topics.find_or_create(cluster, name)
        return _described(cluster, name)
    except KafkaError as error:
        return MetadataTopicResponse(error_code=error.code, name=topic.name, topic_id=topic.topic_id)


def _described(cluster: Cluster, name: str) -> MetadataTopicResponse:
    return MetadataTopicResponse(
        name=name,
        topic_id=cluster.catalog.topics[name].topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[_partition(cluster, partition) for partition in cluster.partitions[name]],
    )


def _partition(cluster: Cluster, partition: Partition) -> MetadataPartitionResponse:
    alive = [broker_id for broker_id in partition.replicas if broker_id in cluster.nodes]
    return MetadataPartitionResponse(
        error_code=Code.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else Code.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=alive,
        offline_replicas=[broker_id for broker_id in partition.replicas if broker_id not in cluster.nodes],
    )


def refuse(request: MetadataRequest, error: Code, version: int) -> MetadataResponse:
    """One error for every topic that was asked for."""
    nameless = None if version >= IDS_SINCE else ""
    named = [
        MetadataTopicResponse(error_code=error, name=topic.name or nameless, topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=named, error_code=error)


HANDLER = Handler(MetadataRequest, VersionRange(0, 13), handle, refuse)

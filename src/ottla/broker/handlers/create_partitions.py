"""CreatePartitions, key 37: raise the number of partitions of topics.

Versions: 0 to 3.
Behaviour: the new partitions have as many replicas as the old ones, on brokers in turn or as the request
says. Keys move to other partitions from then on, as everywhere in Kafka. Any broker does it.
"""

from __future__ import annotations

from collections import Counter

from ottla.broker import topics
from ottla.broker.catalog import Replicas, Topic
from ottla.broker.cluster import Cluster
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResponse,
)
from ottla.wire.versions import VersionRange


def handle(inquiry: Inquiry, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Let each of the topics grow, or only look whether it could."""
    cluster = inquiry.cluster
    counts = Counter(topic.name for topic in request.topics)
    change = topics.grown if request.validate_only else topics.grow
    results = []
    for asked in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResponse(name=asked.name)
        try:
            if counts[asked.name] > 1:
                raise KafkaError(Code.INVALID_REQUEST, f"topic {asked.name!r} is in the request twice")
            change(cluster, asked.name, _replicas(cluster, cluster.topic(asked.name), asked))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, str(error)
        results.append(result)
    return CreatePartitionsResponse(results=results)


def _replicas(cluster: Cluster, topic: Topic, asked: CreatePartitionsTopic) -> tuple[Replicas, ...]:
    """Where the new partitions go."""
    count, factor = asked.count - topic.partition_count, len(topic.replicas[0])
    if count < 1:
        what = f"topic {topic.name!r} has {topic.partition_count} partitions; {asked.count} would not be more"
        raise KafkaError(Code.INVALID_PARTITIONS, what)
    if asked.assignments is None:
        return topics.spread(cluster, count, factor, first=topic.partition_count)
    if len(asked.assignments) != count:
        what = f"{len(asked.assignments)} assignments for {count} new partitions"
        raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, what)
    return topics.assigned(cluster, [one.broker_ids for one in asked.assignments], factor)


def refuse(request: CreatePartitionsRequest, error: Code, _version: int) -> CreatePartitionsResponse:
    """One error for every topic."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResponse(name=topic.name, error_code=error, error_message=error.text)
            for topic in request.topics
        ]
    )


HANDLER = Handler(CreatePartitionsRequest, VersionRange(0, 3), handle, refuse)

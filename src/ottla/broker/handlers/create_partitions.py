"""CreatePartitions, key 37: raise the number of partitions of topics.

Versions: 0 to 3.
Behaviour: the new partitions have as many replicas as the old ones, on brokers in turn or as the request
says. Keys move to other partitions from then on, as everywhere in Kafka. Any broker does it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from ottla.broker.serving.client_quotas import MutationQuota
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.served_broker import ServedBroker
from ottla.broker.storage.catalog import Replicas, Topic
from ottla.broker.storage.topic_changes import TopicChanges
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResponse,
)

STRICT_SINCE = 3
"""Older clients do not know the error for an exceeded quota."""


def handle(inquiry: Inquiry, request: CreatePartitionsRequest) -> None:
    """Add partitions to each topic, or only check whether that is possible. Many take many slices."""
    quota = inquiry.mutation_quota(is_strict=inquiry.version >= STRICT_SINCE)
    inquiry.reply_in_slices(_grown(inquiry.broker, request, quota))


def _grown(
    broker: ServedBroker, request: CreatePartitionsRequest, quota: MutationQuota
) -> Generator[None, None, CreatePartitionsResponse]:
    topics, store = broker.topics, broker.store
    counts = Counter(topic.name for topic in request.topics)
    results = []
    for wanted in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResponse(name=wanted.name)
        try:
            if counts[wanted.name] > 1:
                raise KafkaError(Code.INVALID_REQUEST, f"topic {wanted.name!r} is in the request twice")
            added = _replicas(topics, store.topic(wanted.name), wanted)
            larger = topics.grown(wanted.name, added)
            quota.spend(len(added))
            if not request.validate_only:
                failed = yield from topics.growth(larger)
                for error in failed.values():
                    raise error
        except KafkaError as error:
            result.error_code, result.error_message = error.code, str(error)
        results.append(result)
        yield
    return CreatePartitionsResponse(results=results, throttle_time_ms=quota.wait_ms)


def _replicas(topics: TopicChanges, topic: Topic, wanted: CreatePartitionsTopic) -> tuple[Replicas, ...]:
    """Return the replicas of the new partitions. Raises KafkaError."""
    count, factor = wanted.count - topic.partition_count, len(topic.replicas[0])
    if count < 1:
        reason = (
            f"topic {topic.name!r} has {topic.partition_count} partitions; {wanted.count} would not be more"
        )
        raise KafkaError(Code.INVALID_PARTITIONS, reason)
    if wanted.assignments is None:
        return topics.spread(count, factor, first=topic.partition_count)
    if len(wanted.assignments) != count:
        reason = f"{len(wanted.assignments)} assignments for {count} new partitions"
        raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, reason)
    return topics.assigned([assignment.broker_ids for assignment in wanted.assignments], factor)


def refuse(request: CreatePartitionsRequest, error: Code, _version: int) -> CreatePartitionsResponse:
    """One error for every topic."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResponse(name=topic.name, error_code=error, error_message=error.text)
            for topic in request.topics
        ]
    )


HANDLER = Handler(handle, refuse)

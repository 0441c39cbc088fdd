"""AlterPartitionReassignments, key 45: give partitions to other brokers of the process.

Versions: 0 to 1. From 1 on a client can forbid that the number of replicas changes.
Behaviour: all brokers of the process share the data, so nothing is copied: a partition has its new replicas
when the answer comes, and nothing is ever under way that could be listed or cancelled. The leader stays if
it is among the new replicas; else the first of them leads. A single broker can only be given what it has.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.served_broker import ServedBroker
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignedPartition,
    ReassignedTopic,
)


def handle(
    inquiry: Inquiry, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Move each partition."""
    may_change = request.allow_replication_factor_change
    topics = []
    for topic in request.topics:
        results = []
        for wanted in topic.partitions:
            result = ReassignedPartition(partition_index=wanted.partition_index, error_message=None)
            try:
                _move(inquiry.broker, topic.name, wanted, may_change=may_change)
            except (KafkaError, StorageError) as error:
                result.error_code, result.error_message = error.code, str(error)
            results.append(result)
        topics.append(ReassignedTopic(name=topic.name, partitions=results))
    return AlterPartitionReassignmentsResponse(
        error_message=None, responses=topics, allow_replication_factor_change=may_change
    )


def _move(broker: ServedBroker, topic: str, wanted: ReassignablePartition, *, may_change: bool) -> None:
    partition = broker.store.partition(topic, wanted.partition_index)
    if wanted.replicas is None:
        raise KafkaError(Code.NO_REASSIGNMENT_IN_PROGRESS, f"{partition} is not being moved")
    (replicas,) = broker.topics.assigned([wanted.replicas])
    if len(replicas) != len(partition.replicas) and not may_change:
        reason = f"{partition} has {len(partition.replicas)} replicas, {len(replicas)} are wanted"
        raise KafkaError(Code.INVALID_REPLICATION_FACTOR, reason)
    leader = partition.leader if partition.leader in replicas else replicas[0]
    if replicas != partition.replicas or leader != partition.leader:
        broker.leaders.move(partition, replicas, leader)


def refuse(
    request: AlterPartitionReassignmentsRequest, error: Code, _version: int
) -> AlterPartitionReassignmentsResponse:
    """One error for the whole request, and, as in Kafka, for each partition."""
    return AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=error.text,
        responses=[
            ReassignedTopic(
                name=topic.name,
                partitions=[
                    ReassignedPartition(
                        partition_index=each.partition_index, error_code=error, error_message=error.text
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        allow_replication_factor_change=request.allow_replication_factor_change,
    )


HANDLER = Handler(handle, refuse)

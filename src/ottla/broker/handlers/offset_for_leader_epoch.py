"""OffsetForLeaderEpoch, key 23: where a leader epoch ended, so that a reader sees whether the log was cut.

Versions: 0 to 4. 1 tells the epoch that was found, 2 fences by the current epoch.
Behaviour: answers as a Kafka leader does, which notes its epoch when it begins to lead; our log notes one
with its first record. So the epoch of a leader that wrote nothing is counted in here. -1 means that nothing
is known of an epoch.
"""

from __future__ import annotations

from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ottla.wire.versions import VersionRange


def handle(inquiry: Inquiry, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Look up each of the epochs."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_found(inquiry, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _found(inquiry: Inquiry, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        partition = inquiry.cluster.partition(topic, asked.partition)
        if partition.leader != inquiry.node.broker_id:
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, repr(partition))
        fenced = partition.epoch_error(asked.current_leader_epoch)
        if fenced:
            raise KafkaError(fenced, repr(partition))
        if partition.log is None:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, repr(partition))
        answer.leader_epoch, answer.end_offset = partition.end_of_epoch(asked.leader_epoch)
    except KafkaError as error:
        answer.error_code = error.code
    return answer


def refuse(request: OffsetForLeaderEpochRequest, error: Code, _version: int) -> OffsetForLeaderEpochResponse:
    """One error for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=asked.partition, error_code=error) for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER = Handler(OffsetForLeaderEpochRequest, VersionRange(0, 4), handle, refuse)

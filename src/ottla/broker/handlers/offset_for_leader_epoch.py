"""OffsetForLeaderEpoch, key 23: where a leader epoch ended, so that a reader sees whether the log was cut.

Versions: 0 to 4. From 1 on the answer has the epoch too; from 2 on a request with another current epoch is
refused.
Behaviour: answers as a Kafka leader does, which stores its epoch when it begins to lead; our log stores an
epoch with its first record. So the epoch of a leader that wrote nothing is added here. -1 means that an epoch
is not known.
"""

from __future__ import annotations

from ottla.broker.serving.division import Division
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.wire.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(inquiry: Inquiry, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Look up each of the epochs."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_epoch_end(inquiry, topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _epoch_end(inquiry: Inquiry, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        partition = inquiry.broker.store.partition(topic, wanted.partition)
        log = partition.led_log(inquiry.broker.broker_id, wanted.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = log.epochs.end_of_epoch(
            wanted.leader_epoch, partition.leader_epoch, log.high_watermark
        )
    except (KafkaError, StorageError) as error:
        answer.error_code = error.code
    return answer


def refuse(request: OffsetForLeaderEpochRequest, error: Code, _version: int) -> OffsetForLeaderEpochResponse:
    """One error for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=wanted.partition, error_code=error)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER = Handler(
    handle,
    refuse,
    divisions=(Division(("topics", "partitions"), ("topics", "partitions")),),
)

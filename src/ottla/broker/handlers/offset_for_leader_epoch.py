"""OffsetForLeaderEpoch, key 23: where a leader epoch ended, so that a reader sees whether the log was cut.

Versions: 0 to 4. 1 tells the epoch that was found, 2 fences by the current epoch.
Behaviour: answers as a Kafka leader does, which notes its epoch when it begins to lead; our log notes one
with its first record. So the epoch of a leader that wrote nothing is counted in here. -1 means that nothing
is known of an epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

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

NOT_KNOWN = (-1, -1)


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
        log = partition.log
        if log is None:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, repr(partition))
        starts = led_epochs(log.epochs.entries, partition.leader_epoch, log.high_watermark)
        answer.leader_epoch, answer.end_offset = end_of(asked.leader_epoch, starts, log.high_watermark)
    except KafkaError as error:
        answer.error_code = error.code
    return answer


def led_epochs(
    written: Sequence[tuple[int, int]], leader_epoch: int, log_end: int
) -> Sequence[tuple[int, int]]:
    """(epoch, first offset) of the records, and the present leader's epoch if it has written nothing yet."""
    if written and written[-1][0] >= leader_epoch:
        return written
    return [*(entry for entry in written if entry[1] < log_end), (leader_epoch, log_end)]


def end_of(epoch: int, starts: Sequence[tuple[int, int]], log_end: int) -> tuple[int, int]:
    """(the largest epoch not above `epoch`, the offset where it ended).

    starts (0, 0) (2, 70) (5, 90), end 100:    5 → (5, 100)   3 → (2, 90)   6 → NOT_KNOWN
    starts (2, 70) (5, 90), end 100:           1 → (1, 70), as its records are gone
    """
    if epoch < 0 or epoch > starts[-1][0]:
        return NOT_KNOWN
    end = log_end
    for start_epoch, start in reversed(starts):
        if start_epoch <= epoch:
            return start_epoch, end
        end = start
    return epoch, end


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

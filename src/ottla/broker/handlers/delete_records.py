"""DeleteRecords, key 21: move the start of partitions forward.

Versions: 0 to 2.
Behaviour: everything below the offset is gone for readers at once; segments that are wholly below it are
removed. -1 means up to the end. Only a partition's leader does it, not for internal topics, and only where
the cleanup policy includes delete. The new start is noted on disk by and by, as in Kafka: after a crash it
may lie where it was, so nothing that must stay secret should rely on it.
"""

from __future__ import annotations

from ottla.broker.cluster import INTERNAL_TOPICS
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResponse,
)
from ottla.wire.versions import VersionRange

NO_WATERMARK = -1


def handle(inquiry: Inquiry, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Move each of the starts."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResponse(
                name=topic.name, partitions=[_moved(inquiry, topic.name, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _moved(inquiry: Inquiry, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResponse:
    answer = DeleteRecordsPartitionResponse(partition_index=asked.partition_index, low_watermark=NO_WATERMARK)
    try:
        answer.low_watermark = _delete(inquiry, topic, asked)
    except KafkaError as error:
        answer.error_code = error.code
    except StorageError:
        answer.error_code = Code.KAFKA_STORAGE_ERROR
    return answer


def _delete(inquiry: Inquiry, topic: str, asked: DeleteRecordsPartition) -> int:
    """Move one start; where it is then."""
    cluster = inquiry.cluster
    partition = cluster.partition(topic, asked.partition_index)
    if topic in INTERNAL_TOPICS:
        raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"{partition} is the broker's own")
    if partition.leader != inquiry.node.broker_id:
        raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, repr(partition))
    log = partition.log
    if log is None:
        raise StorageError(f"{partition} is offline")
    if not log.config.is_deleted:
        raise KafkaError(Code.POLICY_VIOLATION, f"{partition} has no cleanup.policy=delete")
    segment_count = len(log.segments)
    start = log.delete_records(asked.offset)
    if len(log.segments) < segment_count:
        cluster.loop.call_later(log.config.file_delete_delay_ms / 1000, log.purge)
    return start


def refuse(request: DeleteRecordsRequest, error: Code, _version: int) -> DeleteRecordsResponse:
    """One error for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResponse(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResponse(
                        partition_index=asked.partition_index, low_watermark=NO_WATERMARK, error_code=error
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER = Handler(DeleteRecordsRequest, VersionRange(0, 2), handle, refuse)

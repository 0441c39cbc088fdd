"""DeleteRecords, key 21: move the start of partitions forward.

Versions: 0 to 2.
Behaviour: everything below the offset is gone for readers at once; segments that are wholly below it are
removed. -1 means up to the end. Only a partition's leader does it, not for internal topics, and only where
the cleanup policy includes delete. The new start is stored on disk later, as in Kafka: after a crash the old
start may be back, so do not rely on it to hide secrets.
"""

from __future__ import annotations

from ottla.broker.serving.division import Division
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.storage.housekeeping import purge_later
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.model.topic_partition import INTERNAL_TOPICS
from ottla.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResponse,
)

NO_WATERMARK = -1


def handle(inquiry: Inquiry, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Move each of the starts."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResponse(
                name=topic.name,
                partitions=[_moved(inquiry, topic.name, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _moved(inquiry: Inquiry, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResponse:
    answer = DeleteRecordsPartitionResponse(
        partition_index=wanted.partition_index, low_watermark=NO_WATERMARK
    )
    try:
        answer.low_watermark = _delete(inquiry, topic, wanted)
    except (KafkaError, StorageError) as error:
        answer.error_code = error.code
    return answer


def _delete(inquiry: Inquiry, topic: str, wanted: DeleteRecordsPartition) -> int:
    """Move the start of a partition forward and return it. Raises KafkaError or StorageError."""
    broker = inquiry.broker
    partition = broker.store.partition(topic, wanted.partition_index)
    if topic in INTERNAL_TOPICS:
        raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"{partition} is the broker's own")
    log = partition.led_log(broker.broker_id)
    if not log.config.is_deleted:
        raise KafkaError(Code.POLICY_VIOLATION, f"{partition} has no cleanup.policy=delete")
    segment_count = len(log.segments)
    start = log.delete_records(wanted.offset)
    if len(log.segments) < segment_count:
        purge_later(partition, broker.runtime)
    return start


def refuse(request: DeleteRecordsRequest, error: Code, _version: int) -> DeleteRecordsResponse:
    """One error for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResponse(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResponse(
                        partition_index=wanted.partition_index, low_watermark=NO_WATERMARK, error_code=error
                    )
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

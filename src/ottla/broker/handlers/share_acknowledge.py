"""ShareAcknowledge, key 79: say what became of records that a member of a share group acquired.

Versions: 1 and 2. 0 was an early access.
Behaviour: the acknowledgements of a partition count all or not at all. They are stored before the answer.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.share_acknowledging import Outcomes, acknowledge, by_topic, open_session
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.share_acknowledge import (
    AcknowledgePartitionResponse,
    AcknowledgeTopicResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)


def handle(inquiry: Inquiry, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse | None:
    """Carry the acknowledgements out, and answer when they are stored."""
    try:
        open_session(inquiry, request)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=Code.of(error.code), error_message=str(error))
    lock_ms = inquiry.broker.shares.settings(request.group_id or "").lock_duration_ms

    def acknowledged(outcomes: Outcomes) -> None:
        topics = [
            AcknowledgeTopicResponse(
                topic_id=topic_id,
                partitions=[_answer(index, outcomes[topic_id, index]) for index in indexes],
            )
            for topic_id, indexes in by_topic(outcomes).items()
        ]
        inquiry.reply(ShareAcknowledgeResponse(responses=topics, acquisition_lock_timeout_ms=lock_ms))

    acknowledge(inquiry, request, acknowledged)
    return None


def _answer(index: int, error: KafkaError | None) -> AcknowledgePartitionResponse:
    if error is None:
        return AcknowledgePartitionResponse(partition_index=index)
    return AcknowledgePartitionResponse(
        partition_index=index, error_code=Code.of(error.code), error_message=str(error)
    )


def refuse(request: ShareAcknowledgeRequest, error: Code, _version: int) -> ShareAcknowledgeResponse:
    """One error for every partition."""
    topics = [
        AcknowledgeTopicResponse(
            topic_id=topic.topic_id,
            partitions=[
                AcknowledgePartitionResponse(partition_index=item.partition_index, error_code=error)
                for item in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ShareAcknowledgeResponse(responses=topics, error_code=Code.NONE if topics else error)


HANDLER = Handler(handle, refuse)

"""DeleteShareGroupOffsets, key 92: let a share group without members forget topics.

Versions: 0.
Behaviour: a group that subscribes to such a topic again begins as a new one. A topic that the group has not
read is an error, as in Kafka. Answered when it is stored.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.share_coordination import check_empty
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.delete_share_group_offsets import (
    DeletedShareOffsetsTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)

NOTHING_STORED = "There is no offset information to delete."


def handle(
    inquiry: Inquiry, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse | None:
    """Forget each of the topics."""
    try:
        check_empty(inquiry, request.group_id)
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(error_code=Code.of(error.code), error_message=str(error))
    shares = inquiry.broker.shares
    known = list(shares.known(request.group_id))
    names = [topic.topic_name for topic in request.topics]
    answers = [_forgotten(inquiry, request.group_id, name) for name in names]
    gone = [key for key in known if key not in shares.known(request.group_id)]

    def stored(error: Code) -> None:
        text = error.text if error else None
        inquiry.reply(
            DeleteShareGroupOffsetsResponse(responses=answers, error_code=error, error_message=text)
        )

    shares.log.when_stored(gone, stored)
    return None


def _forgotten(inquiry: Inquiry, group_id: str, name: str) -> DeletedShareOffsetsTopic:
    topic = inquiry.broker.store.catalog.topics.get(name)
    if topic is None:
        return DeletedShareOffsetsTopic(
            topic_name=name,
            topic_id=bytes(16),
            error_code=Code.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"there is no topic {name!r}",
        )
    answer = DeletedShareOffsetsTopic(topic_name=name, topic_id=topic.topic_id)
    shares = inquiry.broker.shares
    if not any(key.topic_id == topic.topic_id for key in shares.known(group_id)):
        answer.error_code = Code.UNKNOWN_TOPIC_OR_PARTITION
        answer.error_message = NOTHING_STORED
    shares.forget_topic(topic.topic_id, group_id)
    return answer


def refuse(
    _request: DeleteShareGroupOffsetsRequest, error: Code, _version: int
) -> DeleteShareGroupOffsetsResponse:
    """One error for the whole request."""
    return DeleteShareGroupOffsetsResponse(error_code=error, error_message=error.text)


HANDLER = Handler(handle, refuse)

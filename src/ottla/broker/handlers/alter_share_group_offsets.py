"""AlterShareGroupOffsets, key 91: let a share group without members begin elsewhere.

Versions: 0.
Behaviour: a group that does not exist is made. What it knew of a partition is gone. Answered when stored.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.share_coordination import check_empty
from ottla.broker.share_groups.core.records import ShareKey
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.alter_share_group_offsets import (
    AlteredShareOffset,
    AlteredShareOffsetsTopic,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareOffsetsTopic,
)


def handle(inquiry: Inquiry, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse | None:
    """Begin anew in each partition."""
    try:
        check_empty(inquiry, request.group_id, may_be_new=True)
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(error_code=Code.of(error.code), error_message=str(error))
    changed: list[ShareKey] = []
    topics = [_altered(inquiry, request.group_id, topic, changed) for topic in request.topics]

    def stored(error: Code) -> None:
        text = error.text if error else None
        inquiry.reply(AlterShareGroupOffsetsResponse(responses=topics, error_code=error, error_message=text))

    inquiry.broker.shares.log.when_stored(changed, stored)
    return None


def _altered(
    inquiry: Inquiry, group_id: str, wanted: AlterShareOffsetsTopic, changed: list[ShareKey]
) -> AlteredShareOffsetsTopic:
    store = inquiry.broker.store
    topic = store.catalog.topics.get(wanted.topic_name)
    answer = AlteredShareOffsetsTopic(topic_name=wanted.topic_name)
    count = len(store.partitions.get(wanted.topic_name, []))
    answer.topic_id = topic.topic_id if topic else bytes(16)
    for item in wanted.partitions:
        result = AlteredShareOffset(partition_index=item.partition_index)
        answer.partitions.append(result)
        if topic is None or not 0 <= item.partition_index < count:
            result.error_code = Code.UNKNOWN_TOPIC_OR_PARTITION
            result.error_message = f"there is no partition {wanted.topic_name}-{item.partition_index}"
        elif item.start_offset < 0:
            result.error_code = Code.INVALID_REQUEST
            result.error_message = f"offset {item.start_offset} is negative"
        else:
            key = ShareKey(group_id, topic.topic_id, item.partition_index)
            inquiry.broker.shares.begin_at(key, item.start_offset)
            changed.append(key)
    return answer


def refuse(
    _request: AlterShareGroupOffsetsRequest, error: Code, _version: int
) -> AlterShareGroupOffsetsResponse:
    """One error for the whole request."""
    return AlterShareGroupOffsetsResponse(error_code=error, error_message=error.text)


HANDLER = Handler(handle, refuse)

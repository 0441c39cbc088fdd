"""OffsetDelete, key 47: forget committed offsets of topics that a group does not read.

Versions: 0.
Behaviour: partitions that do not exist are refused here, the rest is decided by the group coordinator, see
`ottla.broker.groups.coordinator`; an error of the group is the whole answer.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.offset_delete import (
    OffsetDeletePartitionResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteTopic,
    OffsetDeleteTopicResponse,
)
from ottla.wire.declared_class import replaced


def handle(inquiry: Inquiry, request: OffsetDeleteRequest) -> None:
    """Ask the coordinator for what exists."""
    known: list[OffsetDeleteTopic] = []
    refused: list[OffsetDeleteTopicResponse] = []
    for topic in request.topics:
        count = len(inquiry.broker.store.partitions.get(topic.name, ()))
        existing = [item for item in topic.partitions if 0 <= item.partition_index < count]
        missing = [item.partition_index for item in topic.partitions if not 0 <= item.partition_index < count]
        if existing:
            known.append(OffsetDeleteTopic(name=topic.name, partitions=existing))
        if missing:
            refused.append(_refused(topic.name, missing))

    def reply(response: OffsetDeleteResponse) -> None:
        if not response.error_code:
            response = replaced(response, topics=[*response.topics, *refused])
        inquiry.reply(response)

    inquiry.ask_groups(replaced(request, topics=known), reply)


def _refused(
    name: str, indexes: list[int], code: Code = Code.UNKNOWN_TOPIC_OR_PARTITION
) -> OffsetDeleteTopicResponse:
    answers = [OffsetDeletePartitionResponse(partition_index=index, error_code=code) for index in indexes]
    return OffsetDeleteTopicResponse(name=name, partitions=answers)


def refuse(request: OffsetDeleteRequest, error: Code, _version: int) -> OffsetDeleteResponse:
    """One error for the whole request; rights on topics are missing for each of them."""
    if error is not Code.TOPIC_AUTHORIZATION_FAILED:
        return OffsetDeleteResponse(error_code=error)
    topics = [
        _refused(topic.name, [each.partition_index for each in topic.partitions], error)
        for topic in request.topics
    ]
    return OffsetDeleteResponse(topics=topics)


HANDLER = Handler(handle, refuse)

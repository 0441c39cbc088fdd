"""OffsetCommit, key 8: store how far a group has read.

Versions: 0 to 10. 0 writes ZooKeeper, the others `__consumer_offsets`; 0 is only served with ZooKeeper. 10
names topics by id.
Behaviour: partitions and ids that do not exist are refused here, the rest is decided by the group
coordinator, see `ottla.broker.groups.coordinator`.
"""

from __future__ import annotations

from ottla.broker.groups.coordinator.offsets import commit_refused
from ottla.broker.serving.division import Division
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopic,
    OffsetCommitTopicResponse,
)
from ottla.wire.declared_class import replaced

IDS_SINCE = 10
Codes = dict[tuple[str | bytes, int], int]
"""The error of each partition of a request, by its topic's name or id and its index."""


def handle(inquiry: Inquiry, request: OffsetCommitRequest) -> OffsetCommitResponse | None:
    """Refuse what does not exist, and ask the coordinator for the rest, or ZooKeeper."""
    if inquiry.version == 0:
        inquiry.broker.offsets_of_version_0().commit(request, inquiry.reply)
        return None
    known, refused = _split(inquiry, request.topics)
    if refused and not known:
        return _answer(request, refused)

    def reply(response: OffsetCommitResponse) -> None:
        decided = {
            (_key(topic), partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }
        inquiry.reply(_answer(request, refused | decided) if refused else response)

    inquiry.ask_groups(replaced(request, topics=known), reply)
    return None


def _split(inquiry: Inquiry, topics: list[OffsetCommitTopic]) -> tuple[list[OffsetCommitTopic], Codes]:
    """Return the topics with their names and the partitions that exist, and the errors of the others."""
    store = inquiry.broker.store
    known: list[OffsetCommitTopic] = []
    refused: Codes = {}
    for topic in topics:
        is_by_id = inquiry.version >= IDS_SINCE
        name = store.topic_names.get(topic.topic_id, "") if is_by_id else topic.name
        error = Code.UNKNOWN_TOPIC_ID if is_by_id and not name else Code.UNKNOWN_TOPIC_OR_PARTITION
        count = len(store.partitions.get(name, ()))
        existing = [item for item in topic.partitions if 0 <= item.partition_index < count]
        if existing or not topic.partitions:
            known.append(replaced(topic, name=name, partitions=existing))
        if len(existing) < len(topic.partitions):
            refused |= {
                (_key(topic), item.partition_index): error
                for item in topic.partitions
                if not 0 <= item.partition_index < count
            }
    return known, refused


def _key(topic: OffsetCommitTopic | OffsetCommitTopicResponse) -> str | bytes:
    """Return what the request names a topic by."""
    return topic.topic_id if any(topic.topic_id) else topic.name


def _answer(request: OffsetCommitRequest, codes: Codes) -> OffsetCommitResponse:
    """Return the error of each partition, in the order of the request."""
    response = commit_refused(request, Code.NONE)
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = codes[_key(topic), partition.partition_index]
    return response


def refuse(request: OffsetCommitRequest, error: Code, _version: int) -> OffsetCommitResponse:
    """One error for every partition."""
    return commit_refused(request, error)


HANDLER = Handler(
    handle,
    refuse,
    divisions=(Division(("topics", "partitions"), ("topics", "partitions")),),
)

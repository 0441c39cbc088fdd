"""OffsetCommit and OffsetFetch of every version: requests made from values, responses read into values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.error_codes import Code
from ottla.model.errors import RemoteProtocolError
from ottla.model.topic_partition import TopicAndPartition, by_topic
from ottla.wire.api.offset_commit import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopic,
)
from ottla.wire.api.offset_fetch import (
    OffsetFetchGroup,
    OffsetFetchGroupTopic,
    OffsetFetchGroupTopicResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
    OffsetFetchTopicResponse,
)

NAMES_UNTIL = 9
"""The last version of OffsetCommit and OffsetFetch that names topics; later versions use topic ids."""

ALL_SINCE = 2
"""The first version of OffsetFetch that can return all positions of a group."""

_GROUPS_SINCE = 8

T = TypeVar("T", OffsetFetchTopic, OffsetFetchGroupTopic)


class Membership(NamedTuple):
    """The identity of a group member in a commit. By default that of a consumer outside the group."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


NO_MEMBERSHIP = Membership()


class FetchedOffsets(NamedTuple):
    """An OffsetFetch response: positions, the error code of each requested partition, the group's code."""

    offsets: dict[TopicAndPartition, OffsetAndMetadata]
    codes: dict[TopicAndPartition, int]
    code: int


def commit_request(
    group: str,
    offsets: Mapping[TopicAndPartition, OffsetAndMetadata],
    membership: Membership = NO_MEMBERSHIP,
) -> OffsetCommitRequest:
    """Make an OffsetCommit request for versions up to NAMES_UNTIL."""
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=membership.generation,
        member_id=membership.member_id,
        group_instance_id=membership.instance_id,
        topics=[
            OffsetCommitTopic(
                name=topic,
                partitions=[
                    _position(number, offsets[TopicAndPartition(topic, number)]) for number in numbers
                ],
            )
            for topic, numbers in by_topic(offsets).items()
        ],
    )


def _position(partition: int, position: OffsetAndMetadata) -> OffsetCommitPartition:
    return OffsetCommitPartition(
        partition_index=partition,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        committed_metadata=position.metadata,
    )


def commit_codes(
    response: OffsetCommitResponse, requested: Collection[TopicAndPartition]
) -> dict[TopicAndPartition, int]:
    """Return the error code of each requested partition.

    Raises RemoteProtocolError if the response lacks one.
    """
    codes = {
        TopicAndPartition(topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }
    missing = [str(topic_partition) for topic_partition in requested if topic_partition not in codes]
    if missing:
        raise RemoteProtocolError(f"the OffsetCommit response lacks {', '.join(missing)}")
    return {topic_partition: codes[topic_partition] for topic_partition in requested}


def fetch_request(
    group: str,
    partitions: Iterable[TopicAndPartition] | None,
    version: int,
    *,
    require_stable: bool = True,
) -> OffsetFetchRequest:
    """Request the positions of `partitions`, or with None all of the group, which needs version ALL_SINCE.

    With `require_stable`, coordinators answer UNSTABLE_OFFSET_COMMIT for positions that an open transaction
    may still change (since version 7).
    """
    topics = None if partitions is None else by_topic(partitions)
    request = OffsetFetchRequest(require_stable=require_stable and version >= 7)
    if version >= _GROUPS_SINCE:
        request.groups = [OffsetFetchGroup(group_id=group, topics=_named(OffsetFetchGroupTopic, topics))]
    else:
        request.group_id = group
        request.topics = _named(OffsetFetchTopic, topics)
    return request


def _named(kind: type[T], topics: Mapping[str, list[int]] | None) -> list[T] | None:
    if topics is None:
        return None
    return [kind(name=topic, partition_indexes=numbers) for topic, numbers in topics.items()]


def fetched_offsets(
    response: OffsetFetchResponse, requested: Collection[TopicAndPartition], version: int
) -> FetchedOffsets:
    """Read positions and codes. A topic that the broker does not know has no position; that is no error."""
    topics: Sequence[OffsetFetchTopicResponse | OffsetFetchGroupTopicResponse] = response.topics
    group_code = response.error_code
    if version >= _GROUPS_SINCE:
        if len(response.groups) != 1:
            raise RemoteProtocolError(f"OffsetFetch of one group was answered for {len(response.groups)}")
        topics, group_code = response.groups[0].topics, response.groups[0].error_code
    offsets: dict[TopicAndPartition, OffsetAndMetadata] = {}
    codes: dict[TopicAndPartition, int] = dict.fromkeys(requested, group_code)
    for topic in topics:
        for partition in topic.partitions:
            topic_partition = TopicAndPartition(topic.name, partition.partition_index)
            if partition.error_code and partition.error_code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                codes[topic_partition] = partition.error_code
            elif partition.committed_offset >= 0:
                offsets[topic_partition] = OffsetAndMetadata(
                    partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                )
    return FetchedOffsets(offsets, codes, group_code)

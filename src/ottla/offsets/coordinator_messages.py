"""OffsetCommit and OffsetFetch of every version as plain values: what to ask, what was answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ottla.fetching.places import TopicAndPartition
from ottla.model.error_codes import Code
from ottla.model.errors import RemoteProtocolError
from ottla.offsets.store import OffsetAndMetadata
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
"""The last version of both that names topics; later ones have ids."""

ALL_SINCE = 2
"""The first version of OffsetFetch that can ask for all of a group's positions."""

_GROUPS_SINCE = 8

T = TypeVar("T", OffsetFetchTopic, OffsetFetchGroupTopic)


class Membership(NamedTuple):
    """In whose name a commit is made. Without a member, it is that of a consumer outside the group."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


NO_MEMBERSHIP = Membership()


class Told(NamedTuple):
    """An answer to OffsetFetch: positions, the code of each partition that was asked for, and the group's."""

    offsets: dict[TopicAndPartition, OffsetAndMetadata]
    codes: dict[TopicAndPartition, int]
    code: int


def by_topic(partitions: Iterable[TopicAndPartition]) -> dict[str, list[int]]:
    """Partition numbers of each topic."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        topics[topic].append(partition)
    return topics


def commit_request(
    group: str,
    offsets: Mapping[TopicAndPartition, OffsetAndMetadata],
    membership: Membership = NO_MEMBERSHIP,
) -> OffsetCommitRequest:
    """For versions up to NAMES_UNTIL."""
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=membership.generation,
        member_id=membership.member_id,
        group_instance_id=membership.instance_id,
        topics=[
            OffsetCommitTopic(
                name=topic,
                partitions=[_position(one, offsets[TopicAndPartition(topic, one)]) for one in numbers],
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
    answer: OffsetCommitResponse, asked: Collection[TopicAndPartition]
) -> dict[TopicAndPartition, int]:
    """The code of every partition. Raises RemoteProtocolError if one has none."""
    codes = {
        TopicAndPartition(topic.name, one.partition_index): one.error_code
        for topic in answer.topics
        for one in topic.partitions
    }
    missing = [str(one) for one in asked if one not in codes]
    if missing:
        raise RemoteProtocolError(f"OffsetCommit was answered without {', '.join(missing)}")
    return {one: codes[one] for one in asked}


def fetch_request(
    group: str, partitions: Iterable[TopicAndPartition] | None, version: int
) -> OffsetFetchRequest:
    """Positions of partitions, or all of the group's: for None, which needs version ALL_SINCE.

    Positions that an open transaction may still change are asked for again until they stand.
    """
    topics = None if partitions is None else by_topic(partitions)
    request = OffsetFetchRequest(require_stable=version >= 7)
    if version >= _GROUPS_SINCE:
        request.groups = [OffsetFetchGroup(group_id=group, topics=_named(OffsetFetchGroupTopic, topics))]
    else:
        request.group_id = group
        request.topics = _named(OffsetFetchTopic, topics)
    return request


def _named(kind: type[T], topics: Mapping[str, list[int]] | None) -> list[T] | None:
    if topics is None:
        return None
    return [kind(name=one, partition_indexes=which) for one, which in topics.items()]


def told(answer: OffsetFetchResponse, asked: Collection[TopicAndPartition], version: int) -> Told:
    """Positions and codes. A topic that the broker does not know has no position, which is no error."""
    topics: Sequence[OffsetFetchTopicResponse | OffsetFetchGroupTopicResponse] = answer.topics
    whole = answer.error_code
    if version >= _GROUPS_SINCE:
        if len(answer.groups) != 1:
            raise RemoteProtocolError(f"OffsetFetch of one group was answered for {len(answer.groups)}")
        topics, whole = answer.groups[0].topics, answer.groups[0].error_code
    offsets: dict[TopicAndPartition, OffsetAndMetadata] = {}
    codes: dict[TopicAndPartition, int] = dict.fromkeys(asked, whole)
    for topic in topics:
        for one in topic.partitions:
            place = TopicAndPartition(topic.name, one.partition_index)
            if one.error_code and one.error_code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                codes[place] = one.error_code
            elif one.committed_offset >= 0:
                epoch = one.committed_leader_epoch
                offsets[place] = OffsetAndMetadata(one.committed_offset, one.metadata or "", epoch)
    return Told(offsets, codes, whole)

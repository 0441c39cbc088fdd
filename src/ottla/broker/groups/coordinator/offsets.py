"""OffsetCommit, OffsetFetch and OffsetDelete.

A commit is visible once its records have been stored and replayed; then it survives a restart too. Which
commits are accepted:

    generation   group                           answer
    below 0      unknown or Empty                accepted: a consumer without group management, a tool
    below 0      has members, none is named      UNKNOWN_MEMBER_ID: it would overwrite theirs
    any other    unknown                         GROUP_ID_NOT_FOUND since version 9, else ILLEGAL_GENERATION
    any other    not a member, fenced, outdated  UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION
    present      in the sync phase               REBALANCE_IN_PROGRESS: the partition may be another's
    present      in the join phase               accepted: members commit before they give partitions up

Topics are names here. From version 10 on requests name them by id: the handler fills in the names and
refuses unknown ids; answers have both. The handler also refuses partitions that do not exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

from ottla.broker.coordination.effects import Caller, Record
from ottla.broker.groups.coordinator.decision import CoordinatorStep, offset_error
from ottla.broker.groups.coordinator.group import CoordinatedGroup
from ottla.broker.groups.coordinator.records import (
    NO_TIMESTAMP,
    OffsetKey,
    OffsetValue,
    offset_record,
    offset_tombstone,
)
from ottla.broker.groups.coordinator.state import GroupState
from ottla.broker.groups.coordinator.store import GroupStore, Offsets
from ottla.model.error_codes import Code
from ottla.model.java_hashes import utf16_units
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.offset_commit import (
    OffsetCommitPartition,
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopicResponse,
)
from ottla.wire.api.offset_delete import (
    OffsetDeletePartitionResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteTopicResponse,
)
from ottla.wire.api.offset_fetch import (
    OffsetFetchGroup,
    OffsetFetchGroupPartitionResponse,
    OffsetFetchGroupResponse,
    OffsetFetchGroupTopic,
    OffsetFetchGroupTopicResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopicResponse,
)
from ottla.wire.consumer_protocol import CONSUMER

NO_OFFSET = -1
TIMESTAMP_MAX = 2**63 - 1
_UNKNOWN_GROUP_SINCE = 9
_BATCHED_FETCH_SINCE = 8
_GROUP_ERROR_SINCE = 2


# --- commit ---------------------------------------------------------------------------------------------


def commit(
    group: CoordinatedGroup | None, request: OffsetCommitRequest, caller: Caller, step: CoordinatorStep
) -> None:
    """Store offsets of a classic group, or answer why not."""
    error = _commit_error(group, request, caller.version)
    if error:
        step.reply(caller, commit_refused(request, error))
        return
    member = group.members.get(request.member_id) if group else None
    if group and member:
        group.start_session(member, step)
    store(request, caller, step)


def store(
    request: OffsetCommitRequest,
    caller: Caller,
    step: CoordinatorStep,
    partition_error: Callable[[TopicAndPartition], Code] = lambda _: Code.NONE,
) -> None:
    """Store offsets, except those of partitions with an error."""
    records, response = commit_records(request, step, partition_error)
    if not records:
        step.reply(caller, response)
        return

    def stored(step: CoordinatorStep, error: Code) -> None:
        for partition in (partition for topic in response.topics for partition in topic.partitions):
            partition.error_code = partition.error_code or offset_error(error)
        step.reply(caller, response)

    step.append(request.group_id, records, stored)


def commit_refused(request: OffsetCommitRequest, error: Code) -> OffsetCommitResponse:
    """Return the same error for every partition: the response cannot carry it elsewhere."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitTopicResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitPartitionResponse(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _commit_error(group: CoordinatedGroup | None, request: OffsetCommitRequest, version: int) -> Code:
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return Code.NONE
        return Code.GROUP_ID_NOT_FOUND if version >= _UNKNOWN_GROUP_SINCE else Code.ILLEGAL_GENERATION
    if generation < 0 and group.state is GroupState.EMPTY:
        return Code.NONE
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return Code.UNKNOWN_MEMBER_ID
    error = group.member_error(request.member_id, request.group_instance_id)
    if not error and generation != group.generation:
        error = Code.ILLEGAL_GENERATION
    if not error and group.state is GroupState.COMPLETING_REBALANCE:
        error = Code.REBALANCE_IN_PROGRESS
    return error


def commit_records(
    request: OffsetCommitRequest,
    step: CoordinatorStep,
    partition_error: Callable[[TopicAndPartition], Code] = lambda _: Code.NONE,
) -> tuple[list[Record], OffsetCommitResponse]:
    """Return the records of the valid partitions, and the answer if they are stored."""
    records = []
    response = commit_refused(request, Code.NONE)
    retention_ms = request.retention_time_ms
    expire_ms = NO_TIMESTAMP if retention_ms < 0 else min(step.now_ms + retention_ms, TIMESTAMP_MAX)
    for topic, topic_response in zip(request.topics, response.topics, strict=True):
        for partition, result in zip(topic.partitions, topic_response.partitions, strict=True):
            if len(utf16_units(partition.committed_metadata or "")) > step.config.metadata_length_max:
                result.error_code = Code.OFFSET_METADATA_TOO_LARGE
                continue
            result.error_code = partition_error(TopicAndPartition(topic.name, partition.partition_index))
            if result.error_code:
                continue
            key = OffsetKey(group=request.group_id, topic=topic.name, partition=partition.partition_index)
            records.append(offset_record(key, _committed(partition, expire_ms, step.now_ms)))
    return records, response


def _committed(partition: OffsetCommitPartition, expire_ms: int, now_ms: int) -> OffsetValue:
    # In version 1 the client may set the time of its commit; -1 means the present time.
    dated_ms = partition.commit_timestamp
    return OffsetValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms if dated_ms == NO_TIMESTAMP else dated_ms,
        expire_timestamp=expire_ms,
    )


# --- fetch ----------------------------------------------------------------------------------------------


def requested_groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchGroup]:
    """Return the groups that a request names, in the form of the newer versions."""
    if version >= _BATCHED_FETCH_SINCE:
        return request.groups
    if request.topics is None:
        return [OffsetFetchGroup(group_id=request.group_id, topics=None)]
    topics = [
        OffsetFetchGroupTopic(name=topic.name, partition_indexes=topic.partition_indexes)
        for topic in request.topics
    ]
    return [OffsetFetchGroup(group_id=request.group_id, topics=topics)]


def fetched(
    wanted: OffsetFetchGroup, store: GroupStore, unstable: Collection[TopicAndPartition]
) -> OffsetFetchGroupResponse:
    """Return the stored offsets of one group, -1 where there is none; without topics, all of them.

    Partitions that are `unstable` get UNSTABLE_OFFSET_COMMIT: an open transaction has an offset for them.
    """
    offsets = store.offsets(wanted.group_id)
    if wanted.topics is None:
        return OffsetFetchGroupResponse(group_id=wanted.group_id, topics=_all_topics(offsets, unstable))
    topics = [
        OffsetFetchGroupTopicResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                _fetched_stable(TopicAndPartition(topic.name, index), offsets, unstable)
                for index in topic.partition_indexes
            ],
        )
        for topic in wanted.topics
    ]
    return OffsetFetchGroupResponse(group_id=wanted.group_id, topics=topics)


def fetch_refused(wanted: OffsetFetchGroup, error: Code, version: int) -> OffsetFetchGroupResponse:
    """Return one error for a group. Versions 0 and 1 can only carry it in the partitions."""
    response = OffsetFetchGroupResponse(group_id=wanted.group_id, error_code=error)
    if version < _GROUP_ERROR_SINCE:
        response.topics = [
            OffsetFetchGroupTopicResponse(
                name=topic.name,
                partitions=[_fetched_partition(index, None, error) for index in topic.partition_indexes],
            )
            for topic in wanted.topics or []
        ]
    return response


def fetch_response(groups: list[OffsetFetchGroupResponse], version: int) -> OffsetFetchResponse:
    """Return the answers in the form of `version`. Before version 8 there is one group."""
    if version >= _BATCHED_FETCH_SINCE:
        return OffsetFetchResponse(groups=groups)
    only = groups[0]
    topics = [
        OffsetFetchTopicResponse(
            name=topic.name,
            partitions=[
                OffsetFetchPartitionResponse(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
                for partition in topic.partitions
            ],
        )
        for topic in only.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=only.error_code)


def _all_topics(
    offsets: Offsets, unstable: Collection[TopicAndPartition]
) -> list[OffsetFetchGroupTopicResponse]:
    by_topic: dict[str, list[OffsetFetchGroupPartitionResponse]] = defaultdict(list)
    for item in dict.fromkeys([*offsets, *unstable]) if unstable else offsets:
        by_topic[item.topic].append(_fetched_stable(item, offsets, unstable))
    return [
        OffsetFetchGroupTopicResponse(name=name, partitions=partitions)
        for name, partitions in by_topic.items()
    ]


def _fetched_stable(
    item: TopicAndPartition, offsets: Offsets, unstable: Collection[TopicAndPartition]
) -> OffsetFetchGroupPartitionResponse:
    if item in unstable:
        return _fetched_partition(item.partition, None, Code.UNSTABLE_OFFSET_COMMIT)
    return _fetched_partition(item.partition, offsets.get(item))


def _fetched_partition(
    partition: int, committed: OffsetValue | None, error: Code = Code.NONE
) -> OffsetFetchGroupPartitionResponse:
    if committed is None:
        return OffsetFetchGroupPartitionResponse(
            partition_index=partition, committed_offset=NO_OFFSET, metadata="", error_code=error
        )
    return OffsetFetchGroupPartitionResponse(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


# --- delete ---------------------------------------------------------------------------------------------


def delete(
    group: CoordinatedGroup | None, request: OffsetDeleteRequest, caller: Caller, step: CoordinatorStep
) -> None:
    """Delete offsets.

    Tombstones are written whether or not there is an offset: it may be on its way into the log, and a
    tombstone for nothing does no harm.
    """
    error = _delete_error(group)
    if error or group is None:
        step.reply(caller, OffsetDeleteResponse(error_code=error))
    else:
        delete_unsubscribed(group.subscribed_to, request, caller, step)


def delete_unsubscribed(
    is_subscribed: Callable[[str], bool], request: OffsetDeleteRequest, caller: Caller, step: CoordinatorStep
) -> None:
    """Delete offsets of topics that no member subscribes to."""
    response = OffsetDeleteResponse()
    deleted: list[OffsetDeletePartitionResponse] = []
    records = []
    for topic in request.topics:
        subscribed = is_subscribed(topic.name)
        code = Code.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else Code.NONE
        results = [
            OffsetDeletePartitionResponse(partition_index=partition.partition_index, error_code=code)
            for partition in topic.partitions
        ]
        response.topics.append(OffsetDeleteTopicResponse(name=topic.name, partitions=results))
        if subscribed:
            continue
        deleted += results
        keys = [
            OffsetKey(group=request.group_id, topic=topic.name, partition=result.partition_index)
            for result in results
        ]
        records += [offset_tombstone(key) for key in keys]
    if not records:
        step.reply(caller, response)
        return

    def stored(step: CoordinatorStep, error: Code) -> None:
        for result in deleted:
            result.error_code = offset_error(error)
        step.reply(caller, response)

    step.append(request.group_id, records, stored)


def _delete_error(group: CoordinatedGroup | None) -> Code:
    """Refuse groups with members of another type than consumers: their offsets in use are not known."""
    if group is None:
        return Code.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        return Code.NON_EMPTY_GROUP
    return Code.NONE

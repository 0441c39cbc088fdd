"""OffsetCommit, OffsetFetch and OffsetDelete.

A commit is visible when its records have been stored and replayed, not before; then it survives a restart
too. Who may commit:

    generation   group                           answer
    below 0      unknown or Empty                accepted: a consumer without group management, a tool
    below 0      has members, none is named      UNKNOWN_MEMBER_ID: it would overwrite theirs
    any other    unknown                         GROUP_ID_NOT_FOUND since version 9, else ILLEGAL_GENERATION
    any other    not a member, fenced, outdated  UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION
    present      in the sync phase               REBALANCE_IN_PROGRESS: the partition may be another's
    present      in the join phase               accepted: members commit before they give partitions up

Topics are names here. From version 10 on requests name them by id: the handler fills in the names and
refuses unknown ids; both are given back. Which topics exist is the handler's business as well.
"""

from __future__ import annotations

from ottla.broker.groups.decision import Caller, Turn, offset_error
from ottla.broker.groups.group import Group
from ottla.broker.groups.records import (
    NO_TIMESTAMP,
    OffsetKey,
    OffsetValue,
    Record,
    offset_record,
    offset_tombstone,
)
from ottla.broker.groups.state import GroupState
from ottla.broker.groups.store import GroupStore, Offsets, TopicPartition
from ottla.broker.groups.subscription import CONSUMER
from ottla.model.error_codes import Code
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

NO_OFFSET = -1
TIMESTAMP_MAX = 2**63 - 1
_UNKNOWN_GROUP_SINCE = 9
_BATCHED_FETCH_SINCE = 8
_GROUP_ERROR_SINCE = 2


# --- commit ---------------------------------------------------------------------------------------------


def commit(group: Group | None, request: OffsetCommitRequest, caller: Caller, turn: Turn) -> None:
    """Store offsets, or say why not."""
    error = _commit_error(group, request, caller.version)
    if error:
        turn.reply(caller, commit_refused(request, error))
        return
    member = group.members.get(request.member_id) if group else None
    if group and member:
        group.start_session(member, turn)
    records, response = _commit_records(request, turn)
    if not records:
        turn.reply(caller, response)
        return

    def stored(turn: Turn, error: Code) -> None:
        for partition in (one for topic in response.topics for one in topic.partitions):
            partition.error_code = partition.error_code or offset_error(error)
        turn.reply(caller, response)

    turn.append(request.group_id, records, stored)


def commit_refused(request: OffsetCommitRequest, error: Code) -> OffsetCommitResponse:
    """The same error for every partition: the response has no other place for it."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitTopicResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitPartitionResponse(partition_index=one.partition_index, error_code=error)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _commit_error(group: Group | None, request: OffsetCommitRequest, version: int) -> Code:
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


def _commit_records(request: OffsetCommitRequest, turn: Turn) -> tuple[list[Record], OffsetCommitResponse]:
    """The records of the partitions that are in order, and the answer if storing them succeeds."""
    records = []
    response = commit_refused(request, Code.NONE)
    retention_ms = request.retention_time_ms
    expire_ms = NO_TIMESTAMP if retention_ms < 0 else min(turn.now_ms + retention_ms, TIMESTAMP_MAX)
    for topic, its_response in zip(request.topics, response.topics, strict=True):
        for partition, result in zip(topic.partitions, its_response.partitions, strict=True):
            if _utf16_length(partition.committed_metadata) > turn.config.metadata_length_max:
                result.error_code = Code.OFFSET_METADATA_TOO_LARGE
                continue
            key = OffsetKey(group=request.group_id, topic=topic.name, partition=partition.partition_index)
            records.append(offset_record(key, _committed(partition, expire_ms, turn.now_ms)))
    return records, response


def _committed(partition: OffsetCommitPartition, expire_ms: int, now_ms: int) -> OffsetValue:
    # Version 1 lets the client date its commit; -1 leaves it to us.
    dated_ms = partition.commit_timestamp
    return OffsetValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms if dated_ms == NO_TIMESTAMP else dated_ms,
        expire_timestamp=expire_ms,
    )


def _utf16_length(text: str | None) -> int:
    return 0 if text is None else len(text) + sum(ord(one) > 0xFFFF for one in text)


# --- fetch ----------------------------------------------------------------------------------------------


def asked_groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchGroup]:
    """What is asked, in the form of the newer versions."""
    if version >= _BATCHED_FETCH_SINCE:
        return request.groups
    if request.topics is None:
        return [OffsetFetchGroup(group_id=request.group_id, topics=None)]
    topics = [
        OffsetFetchGroupTopic(name=one.name, partition_indexes=one.partition_indexes)
        for one in request.topics
    ]
    return [OffsetFetchGroup(group_id=request.group_id, topics=topics)]


def fetched(asked: OffsetFetchGroup, store: GroupStore) -> OffsetFetchGroupResponse:
    """The stored offsets of one group; -1 where there is none. None asks for all. Offsets of transactions
    do not exist here, so all are stable."""
    offsets = store.offsets(asked.group_id)
    if asked.topics is None:
        return OffsetFetchGroupResponse(group_id=asked.group_id, topics=_all_topics(offsets))
    topics = [
        OffsetFetchGroupTopicResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                _fetched_partition(one, offsets.get(TopicPartition(topic.name, one)))
                for one in topic.partition_indexes
            ],
        )
        for topic in asked.topics
    ]
    return OffsetFetchGroupResponse(group_id=asked.group_id, topics=topics)


def fetch_refused(asked: OffsetFetchGroup, error: Code, version: int) -> OffsetFetchGroupResponse:
    """One error for a group. Versions 0 and 1 have no place for it but the partitions."""
    response = OffsetFetchGroupResponse(group_id=asked.group_id, error_code=error)
    if version < _GROUP_ERROR_SINCE:
        response.topics = [
            OffsetFetchGroupTopicResponse(
                name=topic.name,
                partitions=[_fetched_partition(one, None, error) for one in topic.partition_indexes],
            )
            for topic in asked.topics or []
        ]
    return response


def fetch_response(groups: list[OffsetFetchGroupResponse], version: int) -> OffsetFetchResponse:
    """The answers in the form of `version`. Before 8 there is one group."""
    if version >= _BATCHED_FETCH_SINCE:
        return OffsetFetchResponse(groups=groups)
    only = groups[0]
    topics = [
        OffsetFetchTopicResponse(
            name=topic.name,
            partitions=[
                OffsetFetchPartitionResponse(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
                for one in topic.partitions
            ],
        )
        for topic in only.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=only.error_code)


def _all_topics(offsets: Offsets) -> list[OffsetFetchGroupTopicResponse]:
    by_topic: dict[str, OffsetFetchGroupTopicResponse] = {}
    for place, committed in offsets.items():
        topic = by_topic.setdefault(place.topic, OffsetFetchGroupTopicResponse(name=place.topic))
        topic.partitions.append(_fetched_partition(place.partition, committed))
    return list(by_topic.values())


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


def delete(group: Group | None, request: OffsetDeleteRequest, caller: Caller, turn: Turn) -> None:
    """Forget offsets. Tombstones are written without looking whether there is an offset: one may be on its
    way into the log, and a tombstone for nothing does no harm."""
    error = _delete_error(group)
    if error or group is None:
        turn.reply(caller, OffsetDeleteResponse(error_code=error))
        return
    response = OffsetDeleteResponse()
    deleted: list[OffsetDeletePartitionResponse] = []
    records = []
    for topic in request.topics:
        subscribed = group.subscribed_to(topic.name)
        code = Code.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else Code.NONE
        results = [
            OffsetDeletePartitionResponse(partition_index=one.partition_index, error_code=code)
            for one in topic.partitions
        ]
        response.topics.append(OffsetDeleteTopicResponse(name=topic.name, partitions=results))
        if subscribed:
            continue
        deleted += results
        keys = [
            OffsetKey(group=group.group_id, topic=topic.name, partition=one.partition_index)
            for one in results
        ]
        records += [offset_tombstone(key) for key in keys]
    if not records:
        turn.reply(caller, response)
        return

    def stored(turn: Turn, error: Code) -> None:
        for result in deleted:
            result.error_code = offset_error(error)
        turn.reply(caller, response)

    turn.append(group.group_id, records, stored)


def _delete_error(group: Group | None) -> Code:
    """Only of consumer groups the coordinator can tell which offsets are in use."""
    if group is None:
        return Code.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        return Code.NON_EMPTY_GROUP
    return Code.NONE

"""Which commits, fetches and deletes of offsets a consumer group accepts.

A member names its epoch. An older epoch is accepted for partitions that the member has had since then
(KIP-1251): its commit may have been on the way when its epoch changed. Any other partition may belong to
another member by now: STALE_MEMBER_EPOCH, and ILLEGAL_GENERATION for members that speak the classic
protocol.
"""

from __future__ import annotations

from ottla.broker.groups.coordinator.consumer_groups.group import ConsumerGroup
from ottla.broker.groups.coordinator.consumer_groups.member import ConsumerMember
from ottla.broker.groups.coordinator.consumer_groups.topics import TopicsView
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchGroup
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest

_EPOCHS_SINCE = 9


def commit_error(group: ConsumerGroup, request: OffsetCommitRequest, version: int) -> Code:
    """Return why a commit must be refused as a whole, or NONE."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return Code.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return Code.UNKNOWN_MEMBER_ID
    if member.classic is None and version < _EPOCHS_SINCE:
        return Code.UNSUPPORTED_VERSION
    return _stale(member) if epoch > member.epoch else Code.NONE


def partition_error(
    group: ConsumerGroup, request: OffsetCommitRequest, item: TopicAndPartition, topics: TopicsView
) -> Code:
    """Return why the offset of one partition must be refused, or NONE."""
    member = group.members.get(request.member_id)
    epoch = request.generation_id_or_member_epoch
    if member is None or epoch == member.epoch:
        return Code.NONE
    topic = topics.by_name(item.topic)
    key = (topic.topic_id if topic is not None else b"", item.partition)
    since = member.assigned.get(key, member.revoking.get(key))
    return _stale(member) if since is None or epoch < since else Code.NONE


def transaction_error(group: ConsumerGroup, request: TxnOffsetCommitRequest) -> Code:
    """Return why a commit in a transaction must be refused, or NONE. Old clients do not name a member."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return Code.NONE
    if epoch < 0 and not request.member_id and request.group_instance_id is None:
        return Code.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return Code.UNKNOWN_MEMBER_ID
    return Code.NONE if epoch == member.epoch else Code.ILLEGAL_GENERATION


def fetch_error(group: ConsumerGroup, wanted: OffsetFetchGroup) -> Code:
    """Return why offsets must not be fetched, or NONE. A tool names no member."""
    if wanted.member_id is None and wanted.member_epoch < 0:
        return Code.NONE
    member = group.members.get(wanted.member_id or "")
    if member is None:
        return Code.UNKNOWN_MEMBER_ID
    return Code.NONE if wanted.member_epoch == member.epoch else _stale(member)


def _stale(member: ConsumerMember) -> Code:
    return Code.STALE_MEMBER_EPOCH if member.classic is None else Code.ILLEGAL_GENERATION

"""Offsets and groups that have expired (KIP-211; spec §8.5).

An offset that was committed with its own retention expires at its own time. Any other expires
`offsets.retention.minutes` after

    the group became empty          group with a protocol type, without members
    the offset was committed        no protocol type: consumers without group management
    the offset was committed        consumer group with members, for topics that none subscribes to

An offset never expires while a member subscribes to its topic, nor while a group with members rebalances or
is of another type. An empty group without offsets is deleted too.
"""

from __future__ import annotations

from ottla.broker.coordination.effects import Record
from ottla.broker.groups.coordinator.consumer_groups.group import ConsumerGroup
from ottla.broker.groups.coordinator.group import CoordinatedGroup
from ottla.broker.groups.coordinator.records import (
    NO_TIMESTAMP,
    OffsetKey,
    OffsetValue,
    group_tombstone,
    offset_tombstone,
)
from ottla.broker.groups.coordinator.state import GroupState
from ottla.broker.groups.coordinator.store import GroupStore
from ottla.wire.consumer_protocol import CONSUMER


def expired_records(
    group: CoordinatedGroup, store: GroupStore, now_ms: int, retention_ms: int
) -> list[Record]:
    """Return the tombstones that are due for one group."""
    offsets = store.offsets(group.group_id)
    expired = [
        topic_partition
        for topic_partition, committed in offsets.items()
        if _is_expired(group, topic_partition.topic, committed, now_ms, retention_ms)
    ]
    records = [
        offset_tombstone(OffsetKey(group=group.group_id, topic=topic, partition=partition))
        for topic, partition in expired
    ]
    if len(expired) == len(offsets) and is_idle(group):
        records.append(group_tombstone(group.group_id))
    return records


def expired_consumer_records(
    group: ConsumerGroup, store: GroupStore, now_ms: int, retention_ms: int
) -> list[Record]:
    """Return the tombstones that are due for a consumer group: those of topics without a subscriber."""
    offsets = store.offsets(group.group_id)
    expired = [
        topic_partition
        for topic_partition, committed in offsets.items()
        if not group.subscribed_to(topic_partition.topic)
        and now_ms - committed.commit_timestamp >= retention_ms
    ]
    records = [
        offset_tombstone(OffsetKey(group=group.group_id, topic=topic, partition=partition))
        for topic, partition in expired
    ]
    if len(expired) == len(offsets) and not group.members:
        draft = group.draft()
        draft.remove_group()
        records += draft.records
    return records


def is_idle(group: CoordinatedGroup) -> bool:
    """Whether no member is in the group or about to join."""
    return group.state is GroupState.EMPTY and not group.pending_joins


def _is_expired(
    group: CoordinatedGroup, topic: str, committed: OffsetValue, now_ms: int, retention_ms: int
) -> bool:
    since_ms = _retention_start(group, topic, committed)
    if since_ms is None:
        return False
    if committed.expire_timestamp != NO_TIMESTAMP:
        return now_ms >= committed.expire_timestamp
    return now_ms - since_ms >= retention_ms


def _retention_start(group: CoordinatedGroup, topic: str, committed: OffsetValue) -> int | None:
    """Return the time since when an offset is out of use; None if it is in use."""
    if not group.protocol_type:
        return committed.commit_timestamp
    if group.state is GroupState.EMPTY:
        # Groups stored by old brokers do not say when they became empty.
        emptied_ms = group.state_since_ms
        return committed.commit_timestamp if emptied_ms == NO_TIMESTAMP else emptied_ms
    settled = group.state is GroupState.STABLE and group.protocol_type == CONSUMER
    return committed.commit_timestamp if settled and not group.subscribed_to(topic) else None

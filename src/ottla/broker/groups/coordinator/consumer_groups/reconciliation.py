"""How a member moves to its target assignment, one heartbeat at a time: see `member` for the states."""

from __future__ import annotations

from collections.abc import Container, Set

from ottla.broker.groups.coordinator.consumer_groups.member import (
    ConsumerMember,
    ReconcilingEvent,
    ReconcilingState,
)
from ottla.broker.groups.coordinator.consumer_groups.records import TopicIdPartition


def reconciled(
    member: ConsumerMember,
    target: Set[TopicIdPartition],
    target_epoch: int,
    taken: Container[TopicIdPartition],
    owned: Set[TopicIdPartition] | None,
) -> ConsumerMember:
    """Return the member one step nearer to its target, or as it is if it cannot move.

    Args:
        member: as it is stored.
        target: the partitions that it should have, of topics that it subscribes to.
        target_epoch: the epoch of the target assignment.
        taken: the partitions of its target that it lacks and that other members have, or have not given up
            yet.
        owned: the partitions that the member reports; None if the request does not list them.
    """
    if member.state is ReconcilingState.UNREVOKED_PARTITIONS and _still_owns(owned, member.revoking.keys()):
        return member
    kept = {partition: epoch for partition, epoch in member.assigned.items() if partition in target}
    lost = {partition: epoch for partition, epoch in member.assigned.items() if partition not in target}
    if lost and _still_owns(owned, lost.keys()):
        return member.moved(ReconcilingEvent.MUST_REVOKE, member.epoch, kept, lost)
    free = {partition: target_epoch for partition in target if partition not in taken}
    assigned = free | kept
    event = ReconcilingEvent.COMPLETE if len(assigned) == len(target) else ReconcilingEvent.MUST_WAIT
    return member.moved(event, target_epoch, assigned, {})


def _still_owns(owned: Set[TopicIdPartition] | None, lost: Set[TopicIdPartition]) -> bool:
    """Whether a member may still read partitions that it must give up."""
    return owned is None or not owned.isdisjoint(lost)

"""A member of a consumer group, and the state of its assignment.

Theory of operation. The group has a *target assignment*, made for a group epoch. Each member moves to it in
its own time, directed by the answers to its heartbeats:

    UNREVOKED     it must give partitions up first; until it reports that, it keeps its epoch
    UNRELEASED    it is in the target's epoch, but others still have some of its partitions
    STABLE        it is in the target's epoch and has all that the target gives it

So a partition has one owner at a time, and members that lose nothing never stop reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from ottla.broker.groups.coordinator.consumer_groups.records import (
    ClassicMemberValue,
    CurrentAssignmentValue,
    MemberMetadataValue,
    TopicIdPartition,
    current_partitions,
    epochs_of,
)
from ottla.wire.transitions import advance

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
"""The epoch of a static member that is away and keeps its partitions until its session ends."""


class ReconcilingState(StrEnum):
    """Where a member is on its way to the target assignment. Records store the index of the state here."""

    STABLE = "stable"
    UNREVOKED_PARTITIONS = "unrevoked partitions"
    UNRELEASED_PARTITIONS = "unreleased partitions"


_STATES = tuple(ReconcilingState)


class ReconcilingEvent(StrEnum):
    """The result of comparing a member with its target."""

    MUST_REVOKE = "has partitions to give up"
    MUST_WAIT = "others have its partitions"
    COMPLETE = "has its target assignment"


_OUTCOMES = MappingProxyType(
    {
        ReconcilingEvent.MUST_REVOKE: ReconcilingState.UNREVOKED_PARTITIONS,
        ReconcilingEvent.MUST_WAIT: ReconcilingState.UNRELEASED_PARTITIONS,
        ReconcilingEvent.COMPLETE: ReconcilingState.STABLE,
    }
)
TRANSITIONS: Mapping[ReconcilingState, Mapping[ReconcilingEvent, ReconcilingState]] = MappingProxyType(
    dict.fromkeys(ReconcilingState, _OUTCOMES)
)


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member as it is stored. Immutable: a change makes a new object.

    `assigned` and `revoking` have the epoch in which the member got each partition. `classic` is set if the
    member speaks the classic protocol.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMemberValue | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: ReconcilingState = ReconcilingState.STABLE
    assigned: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    revoking: Mapping[TopicIdPartition, int] = field(default_factory=dict)

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Whether the member has all that the target assignment of an epoch gives it."""
        return self.state is ReconcilingState.STABLE and self.epoch == assignment_epoch

    def moved(
        self,
        event: ReconcilingEvent,
        epoch: int,
        assigned: Mapping[TopicIdPartition, int],
        revoking: Mapping[TopicIdPartition, int],
    ) -> ConsumerMember:
        """Return the member in the state that the table names, with this epoch and these partitions."""
        return replace(
            self,
            state=advance(TRANSITIONS, self.state, event),
            epoch=epoch,
            previous_epoch=self.epoch,
            assigned=assigned,
            revoking=revoking,
        )

    # --- as it is stored

    def metadata_value(self) -> MemberMetadataValue:
        """Return the subscription and identity of the member, as they are stored."""
        return MemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=list(self.topics),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member=self.classic,
        )

    def with_metadata(self, stored: MemberMetadataValue) -> ConsumerMember:
        """Return the member with what was stored by `metadata_value`."""
        return replace(
            self,
            instance_id=stored.instance_id,
            rack_id=stored.rack_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            topics=tuple(stored.subscribed_topic_names),
            regex=stored.subscribed_topic_regex or "",
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            assignor=stored.server_assignor,
            classic=stored.classic_member,
        )

    def current_value(self) -> CurrentAssignmentValue:
        """Return the current assignment of the member, as it is stored."""
        return CurrentAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=_STATES.index(self.state),
            assigned_partitions=current_partitions(self.assigned),
            partitions_pending_revocation=current_partitions(self.revoking),
        )

    def with_current(self, stored: CurrentAssignmentValue) -> ConsumerMember:
        """Return the member with what was stored by `current_value`. Raises RemoteProtocolError.

        With an unknown state, the member is compared with its target again.
        """
        is_known = 0 <= stored.state < len(_STATES)
        return replace(
            self,
            epoch=stored.member_epoch,
            previous_epoch=stored.previous_member_epoch,
            state=_STATES[stored.state] if is_known else ReconcilingState.UNRELEASED_PARTITIONS,
            assigned=epochs_of(stored.assigned_partitions, stored.member_epoch),
            revoking=epochs_of(stored.partitions_pending_revocation, stored.member_epoch),
        )

    def without_current(self) -> ConsumerMember:
        """Return the member without partitions, as after the tombstone of `current_value`."""
        return replace(
            self,
            epoch=LEAVING_EPOCH,
            previous_epoch=LEAVING_EPOCH,
            state=ReconcilingState.STABLE,
            assigned={},
            revoking={},
        )

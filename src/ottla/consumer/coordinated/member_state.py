"""The states of a group member, as one table. Its reactions to errors are in `ottla.client.reactions`.

Theory of operation. A member asks to join and waits until the generation is complete. The leader of the
generation assigns the partitions; every member syncs and gets its part. The *application*, which runs in
another thread, then starts to read its partitions. Before the next join it stops reading them: all of them,
or with a cooperative assignor only those that the member loses, and these only after the sync. An
`AssignmentChange` says what the application has to do; the member continues when that is done. Meanwhile it
sends heartbeats, so a slow listener does not end the session.

The table is drawn in docs/state-machines.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from ottla.consumer.reading.health import Health
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.coordinator_messages import Membership

PartitionSet = frozenset[TopicAndPartition]
NO_PARTITIONS: PartitionSet = frozenset()


class MemberState(StrEnum):
    """The states of a member, from one generation to the next."""

    JOINING = "joining"
    ASSIGNING = "assigning"
    SYNCING = "syncing"
    ADOPTING = "taking partitions"
    STABLE = "stable"
    REVOKING = "giving partitions back"
    LEFT = "left"
    FAILED = "failed"


class MemberEvent(StrEnum):
    """What changes the state of a member."""

    LED = "joined as the leader"
    JOINED = "joined"
    PLANNED = "has assigned"
    SYNCED = "synced"
    GIVEN = "was given another assignment"
    DONE = "the application is done"
    REBALANCE = "has to join again"
    SENT_BACK = "was sent back to join"
    EVICTED = "is not in the group any more"
    REFUSED = "was refused for good"
    LEAVE = "leaves"
    RETRIED = "tries again"


_S, _E = MemberState, MemberEvent

_FROM_ANYWHERE = {_E.EVICTED: _S.REVOKING, _E.REFUSED: _S.FAILED, _E.LEAVE: _S.LEFT}

TRANSITIONS: Mapping[MemberState, Mapping[MemberEvent, MemberState]] = MappingProxyType(
    {
        _S.JOINING: {_E.LED: _S.ASSIGNING, _E.JOINED: _S.SYNCING, **_FROM_ANYWHERE},
        _S.ASSIGNING: {_E.PLANNED: _S.SYNCING, _E.SENT_BACK: _S.JOINING, **_FROM_ANYWHERE},
        _S.SYNCING: {_E.SYNCED: _S.ADOPTING, _E.SENT_BACK: _S.JOINING, **_FROM_ANYWHERE},
        _S.ADOPTING: {_E.DONE: _S.STABLE, **_FROM_ANYWHERE},
        _S.STABLE: {_E.REBALANCE: _S.REVOKING, **_FROM_ANYWHERE},
        _S.REVOKING: {_E.DONE: _S.JOINING, **_FROM_ANYWHERE},
        _S.FAILED: {_E.LEAVE: _S.LEFT, _E.RETRIED: _S.JOINING},
        _S.LEFT: {},
    }
)

HEALTH_OF = {
    _S.JOINING: Health.JOINING,
    _S.ASSIGNING: Health.REBALANCING,
    _S.SYNCING: Health.REBALANCING,
    _S.ADOPTING: Health.REBALANCING,
    _S.STABLE: Health.STABLE,
    _S.REVOKING: Health.REBALANCING,
    _S.FAILED: Health.FAILED,
    _S.LEFT: Health.CLOSED,
}

ENDS = frozenset({MemberState.LEFT, MemberState.FAILED})

BEATING = frozenset({MemberState.ADOPTING, MemberState.STABLE, MemberState.REVOKING})
"""States in which a member of a generation sends heartbeats. In the other states a join or a sync waits at
the coordinator, which counts as a heartbeat."""

PLANNED = frozenset({MemberState.SYNCING, MemberState.ADOPTING, MemberState.STABLE})
"""States in which the leader's plan may have become outdated."""


MEMBERSHIP_ERRORS = frozenset(
    {
        Code.REBALANCE_IN_PROGRESS,
        Code.ILLEGAL_GENERATION,
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_INSTANCE_ID,
        Code.FENCED_MEMBER_EPOCH,
    }
)
"""Errors of a commit that concern the member, not the offsets."""


REMEDIES: Mapping[Code, str] = MappingProxyType(
    {
        Code.FENCED_INSTANCE_ID: "another process uses the same group.instance.id: give each its own",
        Code.INCONSISTENT_GROUP_PROTOCOL: "the other members have no assignor in common with this one: list "
        "one of theirs in partition.assignment.strategy",
        Code.INVALID_SESSION_TIMEOUT: "keep session.timeout.ms within group.min.session.timeout.ms and "
        "group.max.session.timeout.ms of the broker",
        Code.GROUP_ID_NOT_FOUND: "the group is a classic one and may not be upgraded: set "
        "group.protocol=classic",
        Code.UNRELEASED_INSTANCE_ID: "another process uses the same group.instance.id: give each its own",
        Code.GROUP_MAX_SIZE_REACHED: "run fewer members, or raise the broker's group.max.size",
    }
)
"""What the user can do about errors that end a membership."""


def refusal(group_id: str, code: int) -> KafkaError:
    """The error that ends a membership, with a remedy where there is one."""
    remedy = REMEDIES.get(Code.of(code))
    return KafkaError(code, f"group {group_id!r}" + (f" ({remedy})" if remedy else ""))


@dataclass(frozen=True, slots=True)
class AssignmentChange:
    """What the application has to do: stop reading the `revoked` partitions, then start the `assigned` ones.

    `is_lost`: other members may read the revoked partitions already, so their offsets cannot be committed.
    """

    revoked: PartitionSet
    assigned: PartitionSet
    is_lost: bool
    membership: Membership


@dataclass(frozen=True, slots=True)
class MemberNotice:
    """A line for the log; `level` is one of the module `logging`."""

    level: int
    text: str

"""The states of a group, as one table; it is drawn in docs/state-machines.md.

Theory of operation. A group is a sequence of generations. A generation begins in a *join phase*
(PreparingRebalance): every member asks to join and is kept waiting, until all known members have joined or
the rebalance timeout is over. Then the generation gets its number, a protocol that all members know and a
leader, all joins are answered, and the *sync phase* (CompletingRebalance) begins: every member asks for its
assignment and is kept waiting, until the leader hands in the assignments of all and they are stored. From
then on the group is Stable, until a member joins, leaves, dies or changes its subscription.

An Empty group keeps its offsets, its type and its generation number. Dead is the end of the object: the
group was deleted, or its partition moved to another broker. Continuations that still refer to it check that.
The names are the ones that ListGroups and DescribeGroups send.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class GroupState(StrEnum):
    """The states of a group, between two generations or in one."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(StrEnum):
    """The events that change the state of a group."""

    MEMBERSHIP_CHANGED = "membership changed"
    GENERATION_STARTED = "generation started"
    ALL_LEFT = "all members left"
    ASSIGNED = "assignment stored"
    REMOVED = "group removed"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = GroupState

TRANSITIONS: Mapping[GroupState, Mapping[GroupEvent, GroupState]] = MappingProxyType(
    {
        _EMPTY: {
            GroupEvent.MEMBERSHIP_CHANGED: _PREPARING,
            GroupEvent.REMOVED: _DEAD,
        },
        _PREPARING: {
            GroupEvent.GENERATION_STARTED: _COMPLETING,
            GroupEvent.ALL_LEFT: _EMPTY,
            GroupEvent.REMOVED: _DEAD,
        },
        _COMPLETING: {
            GroupEvent.ASSIGNED: _STABLE,
            GroupEvent.MEMBERSHIP_CHANGED: _PREPARING,
            GroupEvent.REMOVED: _DEAD,
        },
        _STABLE: {
            GroupEvent.MEMBERSHIP_CHANGED: _PREPARING,
            GroupEvent.REMOVED: _DEAD,
        },
        _DEAD: {},
    }
)

"""The states of a member, as one table, and what is done about a coordinator's errors, as another.

Theory of operation. A member asks to join and waits until the generation is complete. Its leader assigns,
everybody syncs and gets his part. The *application*, which runs in another thread, then takes its partitions;
before the next join it gives them back: all of them, or with a cooperative assignor only those that it is
not to have any more, and then only after the sync. What the application shall do is a `Demand`, and the
member goes on when it is done; meanwhile it sends heartbeats, so that a slow listener costs no session.

                 joined          planned          synced            done
    JOINING ──────────▶ ASSIGNING ──────▶ SYNCING ──────▶ ADOPTING ──────▶ STABLE
       ▲  │  joined, not leading              ▲ │             │               │
       │  └───────────────────────────────────┘ │             │ evicted       │ rebalance, evicted
       │◀────────────── sent back ──────────────┘             ▼               │
       └────────────────── done ─────────────────────────── REVOKING ◀────────┘
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from ottla.model.error_codes import Code


class State(Enum):
    """Where a member is between two generations."""

    JOINING = "joining"
    ASSIGNING = "assigning"
    SYNCING = "syncing"
    ADOPTING = "taking partitions"
    STABLE = "stable"
    REVOKING = "giving partitions back"
    LEFT = "left"
    FAILED = "failed"


class Event(Enum):
    """What moves a member on."""

    LED = "joined as the leader"
    JOINED = "joined"
    PLANNED = "has assigned"
    SYNCED = "synced"
    DONE = "the application is done"
    REBALANCE = "has to join again"
    SENT_BACK = "was sent back to join"
    EVICTED = "is not in the group any more"
    REFUSED = "was refused for good"
    LEAVE = "leaves"


_S, _E = State, Event

MOVES: Mapping[tuple[State, Event], State] = MappingProxyType(
    {
        (_S.JOINING, _E.LED): _S.ASSIGNING,
        (_S.JOINING, _E.JOINED): _S.SYNCING,
        (_S.ASSIGNING, _E.PLANNED): _S.SYNCING,
        (_S.SYNCING, _E.SYNCED): _S.ADOPTING,
        (_S.ADOPTING, _E.DONE): _S.STABLE,
        (_S.STABLE, _E.REBALANCE): _S.REVOKING,
        (_S.REVOKING, _E.DONE): _S.JOINING,
        (_S.ASSIGNING, _E.SENT_BACK): _S.JOINING,
        (_S.SYNCING, _E.SENT_BACK): _S.JOINING,
        **{
            (state, event): target
            for state in State
            if state not in {_S.LEFT, _S.FAILED}
            for event, target in (
                (_E.EVICTED, _S.REVOKING),
                (_E.REFUSED, _S.FAILED),
                (_E.LEAVE, _S.LEFT),
            )
        },
        (_S.FAILED, _E.LEAVE): _S.LEFT,
    }
)

ENDS = frozenset({State.LEFT, State.FAILED})

BEATING = frozenset({State.ADOPTING, State.STABLE, State.REVOKING})
"""States in which a member that belongs to a generation sends heartbeats. In the others it has a request at
the coordinator, which counts as one."""


PLANNED = frozenset({State.SYNCING, State.ADOPTING, State.STABLE})
"""States in which a leader's plan may turn out to be of yesterday."""


class Reaction(Enum):
    """What is done about an error of the coordinator."""

    RETRY = "ask again later"
    FIND_COORDINATOR = "look for the coordinator, then ask again"
    TAKE_ID = "join with the id that came with the error"
    REJOIN = "join again"
    FORGET_GENERATION = "the partitions are lost; join again"
    FORGET_MEMBER = "the partitions are lost; join as somebody new"
    FAIL = "tell the application"


_REACTIONS = {
    Code.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    Code.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    Code.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    Code.MEMBER_ID_REQUIRED: Reaction.TAKE_ID,
    Code.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    Code.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
    Code.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
    Code.FENCED_INSTANCE_ID: Reaction.FAIL,
}


MEMBERSHIP_ERRORS = frozenset(
    {
        Code.REBALANCE_IN_PROGRESS,
        Code.ILLEGAL_GENERATION,
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_INSTANCE_ID,
    }
)
"""Those of a commit that are about the member, and not about what it commits."""


def reaction_to(code: int) -> Reaction:
    """By the table; what is not in it is repeated if Kafka calls it retriable."""
    known = Code.of(code)
    return _REACTIONS.get(known) or (Reaction.RETRY if known.retriable else Reaction.FAIL)


REMEDIES: Mapping[Code, str] = MappingProxyType(
    {
        Code.FENCED_INSTANCE_ID: "another process uses the same group.instance.id: give each its own",
        Code.INCONSISTENT_GROUP_PROTOCOL: "the other members have no assignor in common with this one: list "
        "one of theirs in partition.assignment.strategy",
        Code.INVALID_SESSION_TIMEOUT: "keep session.timeout.ms within group.min.session.timeout.ms and "
        "group.max.session.timeout.ms of the broker",
        Code.GROUP_MAX_SIZE_REACHED: "run fewer members, or raise the broker's group.max.size",
    }
)
"""What to do about errors that end a membership."""

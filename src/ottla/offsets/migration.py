"""Moving a group's positions from one store to another: a plan, what carries it out, and a look afterwards.

    plan = plan_migration("billing", source.fetch_all("billing"), target.fetch_all("billing"), live=members)
    failures = carry_out(plan, target)

`plan_migration` is pure. What it decides for a partition is one of

    source  target          step
    17      none, or less   write     17 is written
    17      17              same      there is nothing to do
    17      18              refuse    the group has read on elsewhere: 17 would make it read 17 again
    17                      gone      the cluster has no such partition, so nobody can read it
    any     any             refuse    the group has live members, whose next commit would win

A plan with a refusal writes nothing, unless it is forced: half a group that has moved is worse than none.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.fetching.places import TopicAndPartition
from ottla.model.errors import ConfigError
from ottla.offsets.store import OffsetAndMetadata, OffsetCommitFailed, OffsetStore

log = logging.getLogger(__name__)

Positions = Mapping[TopicAndPartition, OffsetAndMetadata]


class Step(Enum):
    """What is done about a partition."""

    WRITE = "write"
    SAME = "same"
    GONE = "gone"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that the source has a position of; `target` is what the target has now."""

    place: TopicAndPartition
    source: OffsetAndMetadata
    target: OffsetAndMetadata | None
    step: Step
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What will be done, in order of partitions."""

    group: str
    moves: tuple[Move, ...]

    @property
    def writes(self) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """The positions that the target gets."""
        return {one.place: one.source for one in self.moves if one.step is Step.WRITE}

    @property
    def refusals(self) -> tuple[Move, ...]:
        """Why nothing will be done; empty if all is well."""
        return tuple(one for one in self.moves if one.step is Step.REFUSE)


def plan_migration(
    group: str,
    source: Positions,
    target: Positions,
    *,
    live: Collection[str] = (),
    known: Collection[TopicAndPartition] | None = None,
    force: bool = False,
) -> MigrationPlan:
    """What to write of `source` where `target` is.

    `live` are the group's members that are up, wherever they are; `known` the partitions that the cluster
    has, if somebody asked. `force` writes in spite of members and of a target that is ahead.
    """
    shown = ", ".join(sorted(live))
    busy = f"group {group!r} has live members ({shown}): stop them, or force it" if live and not force else ""

    def move(place: TopicAndPartition) -> Move:
        here, there = source[place], target.get(place)
        if known is not None and place not in known:
            return Move(place, here, there, Step.GONE)
        if there is not None and there.offset == here.offset:
            return Move(place, here, there, Step.SAME)
        if busy:
            return Move(place, here, there, Step.REFUSE, busy)
        if there is not None and there.offset > here.offset and not force:
            ahead = f"the target is ahead ({there.offset} > {here.offset}): leave it out, or force it"
            return Move(place, here, there, Step.REFUSE, ahead)
        return Move(place, here, there, Step.WRITE)

    return MigrationPlan(group, tuple(move(place) for place in sorted(source)))


def carry_out(plan: MigrationPlan, target: OffsetStore) -> dict[TopicAndPartition, str]:
    """Write, read back and compare; what is wrong with which partition, and nothing if all went well.

    Raises ConfigError if the plan has refusals, and what stores raise. It may be repeated.
    """
    if plan.refusals:
        first = plan.refusals[0]
        raise ConfigError(f"{first.place} and {len(plan.refusals) - 1} more are refused: {first.reason}")
    writes = plan.writes
    failures: dict[TopicAndPartition, str] = {}
    try:
        target.commit(plan.group, writes)
    except OffsetCommitFailed as error:
        failures = {
            place: str(OffsetCommitFailed(plan.group, {place: code}))
            for place, code in error.failures.items()
        }
    stored = target.fetch(plan.group, writes)
    for place, position in writes.items():
        found = stored.get(place)
        if place not in failures and (found is None or found.offset != position.offset):
            told = "nothing" if found is None else f"{found.offset}"
            failures[place] = f"{position.offset} was written and {told} is read back"
    log.info(
        "group %r: %d positions moved, %d failed", plan.group, len(writes) - len(failures), len(failures)
    )
    return failures

"""Moving a group's positions from one store to another: make a plan, carry it out, verify the result.

    plan = plan_migration("billing", source.fetch_all("billing"), target.fetch_all("billing"), live=members)
    failures = carry_out(plan, target)

`plan_migration` is pure. For each partition it decides one of these steps:

    source  target          step
    17      none, or less   write     17 is written
    17      17              same      there is nothing to do
    17      18              refuse    the group has read further elsewhere: it would read 17 again
    17                      gone      the cluster has no such partition
    any     any             refuse    the group has live members, whose next commit would win

A plan with a refusal writes nothing, unless it is forced: a group that moved half way is worse than one
that did not move.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.errors import ConfigError, OffsetCommitFailed
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.store import OffsetStore

log = logging.getLogger(__name__)

Positions = Mapping[TopicAndPartition, OffsetAndMetadata]


class MigrationStep(Enum):
    """What is done with a partition."""

    WRITE = "write"
    SAME = "same"
    GONE = "gone"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Move:
    """The plan for one partition: its position in the source, and in the target now.

    >>> from ottla import OffsetAndMetadata, TopicAndPartition
    >>> from ottla.offsets import plan_migration
    >>> orders = TopicAndPartition("orders", 0)
    >>> plan = plan_migration("billing", {orders: OffsetAndMetadata(17)}, {orders: OffsetAndMetadata(42)})
    >>> plan.moves[0].step.name, plan.moves[0].reason
    ('REFUSE', 'the target is ahead (42 > 17): leave it out, or force it')
    """

    topic_partition: TopicAndPartition
    source: OffsetAndMetadata
    target: OffsetAndMetadata | None
    step: MigrationStep
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What will be done, sorted by partition.

    >>> from ottla import OffsetAndMetadata, TopicAndPartition
    >>> from ottla.offsets import plan_migration
    >>> orders = TopicAndPartition("orders", 0)
    >>> plan = plan_migration("billing", {orders: OffsetAndMetadata(42)}, {orders: OffsetAndMetadata(17)})
    >>> plan.writes[orders].offset, plan.refusals
    (42, ())
    """

    group: str
    moves: tuple[Move, ...]

    @property
    def writes(self) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """The positions to write into the target."""
        return {move.topic_partition: move.source for move in self.moves if move.step is MigrationStep.WRITE}

    @property
    def refusals(self) -> tuple[Move, ...]:
        """The partitions that keep the plan from being carried out; empty if there are none."""
        return tuple(move for move in self.moves if move.step is MigrationStep.REFUSE)


def plan_migration(
    group: str,
    source: Positions,
    target: Positions,
    *,
    live: Collection[str] = (),
    known: Collection[TopicAndPartition] | None = None,
    force: bool = False,
) -> MigrationPlan:
    """Plan what to write from `source` into `target`.

    `live` are the group's running members, in either store; `known` the partitions of the cluster, None if
    they were not looked up. `force` writes even if there are members or the target is ahead.
    """
    shown = ", ".join(sorted(live))
    busy = f"group {group!r} has live members ({shown}): stop them, or force it" if live and not force else ""

    def move(topic_partition: TopicAndPartition) -> Move:
        here, there = source[topic_partition], target.get(topic_partition)
        if known is not None and topic_partition not in known:
            return Move(topic_partition, here, there, MigrationStep.GONE)
        if there is not None and there.offset == here.offset:
            return Move(topic_partition, here, there, MigrationStep.SAME)
        if busy:
            return Move(topic_partition, here, there, MigrationStep.REFUSE, busy)
        if there is not None and there.offset > here.offset and not force:
            ahead = f"the target is ahead ({there.offset} > {here.offset}): leave it out, or force it"
            return Move(topic_partition, here, there, MigrationStep.REFUSE, ahead)
        return Move(topic_partition, here, there, MigrationStep.WRITE)

    return MigrationPlan(group, tuple(move(topic_partition) for topic_partition in sorted(source)))


def carry_out(plan: MigrationPlan, target: OffsetStore) -> dict[TopicAndPartition, str]:
    """Write the positions, read them back and compare. Return the problem of each partition that has one.

    Raises ConfigError if the plan has refusals, and what stores raise. It may be repeated.
    """
    if plan.refusals:
        first = plan.refusals[0]
        raise ConfigError(
            f"{first.topic_partition} and {len(plan.refusals) - 1} more are refused: {first.reason}"
        )
    writes = plan.writes
    failures: dict[TopicAndPartition, str] = {}
    try:
        target.commit(plan.group, writes)
    except OffsetCommitFailed as error:
        failures = {
            topic_partition: str(OffsetCommitFailed(plan.group, {topic_partition: code}))
            for topic_partition, code in error.failures.items()
        }
    stored = target.fetch(plan.group, writes)
    for topic_partition, position in writes.items():
        actual = stored.get(topic_partition)
        if topic_partition not in failures and (actual is None or actual.offset != position.offset):
            shown = "nothing" if actual is None else f"{actual.offset}"
            failures[topic_partition] = f"{position.offset} was written and {shown} is read back"
    log.info(
        "group %r: %d positions moved, %d failed", plan.group, len(writes) - len(failures), len(failures)
    )
    return failures

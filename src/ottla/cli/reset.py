"""`ottla reset`: moves the positions of a group without members, in Kafka, in ZooKeeper or in both.

Without --execute it prints the plan.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.connection_options import properties_of
from ottla.cli.moments import MOMENTS, parse_moment
from ottla.cli.output import ADD_EXECUTE, Cell, OutputRows, Parser, new_parser, run_command
from ottla.model.errors import ConfigError, OttlaError

if TYPE_CHECKING:
    from ottla.admin import Admin, GroupDescription, GroupKind, OffsetMove, TopicAndPartition
    from ottla.model.offset_spec import OffsetSpec

    Moves = Mapping[TopicAndPartition, OffsetMove]

BOTH = "both"
STORES = ("kafka", "zookeeper", BOTH)
COLUMNS = ("group", "store", "topic", "partition", "before", "after", "done", "note", "error")
STAYS = "stays: --store both moves it too"


def parser() -> Parser:
    """`reset` and its options."""
    parser = new_parser("reset", "Set the positions of a group that has no members.")
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="a topic, or topic:0,1,2")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="WHERE", help=f"earliest, latest, {MOMENTS}")
    where.add_argument("--to-offset", type=int, metavar="N", help="this offset")
    where.add_argument(
        "--shift-by", type=int, metavar="N", help="N offsets forward, or back if N is negative"
    )
    parser.add_argument(
        "--store", choices=STORES, help="which offsets to move, of a group that has some in both stores"
    )
    parser.add_argument("--create", action="store_true", help="also if there is no such group yet")
    parser.add_argument("--execute", action="store_true", help="do it")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, as without --execute")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Move the group, or print the plan."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> OutputRows:
    from ottla.admin import Admin

    target = _target(options)
    is_done = options.execute and not options.dry_run
    with Admin(properties_of(options)) as admin:
        groups = admin.groups_named(options.group)
        if not groups and not options.create:
            raise ConfigError(_no_such_group(admin, options.group))
        partitions = _partitions(admin, options.topics)
        plans: dict[GroupKind, Moves] = {
            kind: admin.reset_group_offsets(
                options.group,
                partitions,
                target,
                shift_by=options.shift_by or 0,
                dry_run=True,
                kind=kind,
            )
            for kind in _chosen(admin, options, groups)
        }
        rows: list[tuple[Cell, ...]] = []
        if is_done:
            _check_idle(options.group, groups)
        for kind, moves in plans.items():
            error = _written(admin, options.group, kind, moves) if is_done else None
            rows += _rows(options.group, kind, moves, error, is_done=is_done)
        for kind in groups.keys() - plans.keys():
            rows += _left(admin, options.group, kind, partitions)
    return OutputRows(COLUMNS, rows, note="" if is_done else ADD_EXECUTE)


def _partitions(admin: Admin, topics: list[str]) -> list[TopicAndPartition]:
    from ottla.cli.kafka.flags import WrongFlags
    from ottla.cli.kafka.group_resets import partitions_of

    try:
        return partitions_of(admin, topics)
    except WrongFlags:
        raise ConfigError(f"{' '.join(topics)}: give topics as orders or orders:0,1,2") from None


def _target(options: argparse.Namespace) -> OffsetSpec | None:
    if options.to is None:
        offset: int | None = options.to_offset
        return offset
    return parse_moment("--to", options.to, "earliest", "latest")


def _no_such_group(admin: Admin, group: str) -> str:
    from ottla.model.did_you_mean import hint

    near = hint(group, {listing.group_id for listing in admin.list_groups()})
    return f"there is no group {group!r}; --create sets the positions of a new one{near}"


def _chosen(
    admin: Admin, options: argparse.Namespace, groups: Mapping[GroupKind, GroupDescription]
) -> list[GroupKind]:
    """Return the stores to move: those of --store; else the one that the members use, or Kafka if there are
    none.
    """
    from ottla.admin import GroupKind

    if options.store is None:
        return [admin.describe_groups(options.group).kind] if groups else [GroupKind.KAFKA]
    return list(GroupKind) if options.store == BOTH else [GroupKind(options.store)]


def _check_idle(group: str, groups: Mapping[GroupKind, GroupDescription]) -> None:
    """Raise if the group has members of either kind: classic ones may use Kafka's offsets."""
    members = [member.member_id for description in groups.values() for member in description.members]
    if members:
        raise OttlaError(f"group {group!r} still has members; stop them first: {', '.join(members)}")


def _written(admin: Admin, group: str, kind: GroupKind, moves: Moves) -> str | None:
    """Write the offsets into a store; return the error, or None."""
    try:
        admin.alter_group_offsets(
            group, {topic_partition: move.after for topic_partition, move in moves.items()}, kind=kind
        )
    except OttlaError as error:
        return str(error)
    return None


def _rows(
    group: str, kind: GroupKind, moves: Moves, error: str | None, *, is_done: bool
) -> list[tuple[Cell, ...]]:
    is_written = is_done and error is None
    return [
        (group, kind.value, *topic_partition, move.before, move.after, is_written, _note(move), error)
        for topic_partition, move in sorted(moves.items())
    ]


def _note(move: OffsetMove) -> str | None:
    if move.wanted == move.after:
        return None
    if move.wanted is None:
        return "no record is that late: the end of the log"
    where = "before the first record" if move.wanted < move.after else "behind the end of the log"
    return f"{move.wanted} is {where}: {move.after}"


def _left(
    admin: Admin, group: str, kind: GroupKind, partitions: Collection[TopicAndPartition]
) -> list[tuple[Cell, ...]]:
    """Rows of a store that is not moved."""
    offsets = admin.group_offsets(group, kind=kind)
    return [
        (group, kind.value, *topic_partition, offsets[topic_partition].offset, None, False, STAYS, None)
        for topic_partition in sorted(partitions)
        if topic_partition in offsets
    ]

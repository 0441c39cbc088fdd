"""`ottla groups watch GROUP`: a rebalance as it happens: who had what, and who has it now.

    12:04:31  billing kafka classic       state    Stable → PreparingRebalance
    12:04:31  billing kafka classic       member   reader-2 joins
    12:04:32  billing kafka classic       orders-1 reader-1 → reader-2

The group is described again and again, for every kind: with a coordinator (classic, consumer, share) and in
ZooKeeper. `changes` is pure.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.output import TABLE, Cell, OutputRows, print_line, print_rows
from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    from ottla.admin import Admin, GroupDescription, GroupKind

    Groups = Mapping[GroupKind, GroupDescription]

NOBODY = "-"
COLUMNS = ("time", "group", "kind", "type", "what", "before", "after")


class Change(NamedTuple):
    """A difference between two descriptions of a group; `what` is state, epoch, member or a partition."""

    kind: str
    group_type: str
    what: str
    before: str
    after: str


def changes(before: Groups, after: Groups) -> Iterator[Change]:
    """Yield what is different: states first, then members, then partitions by their readers."""
    for kind in dict.fromkeys((*before, *after)):
        old, new = before.get(kind), after.get(kind)
        kind_and_type = kind.value, _type(new or old)
        for what, was, now in (
            ("state", _state(old), _state(new)),
            ("epoch", _epoch(old), _epoch(new)),
            *_member_changes(old, new),
            *_reader_changes(old, new),
        ):
            if was != now:
                yield Change(*kind_and_type, what, was, now)


def _type(group: GroupDescription | None) -> str:
    return group.group_type if group is not None else ""


def _state(group: GroupDescription | None) -> str:
    return group.state if group is not None else NOBODY


def _epoch(group: GroupDescription | None) -> str:
    return NOBODY if group is None or group.epoch is None else str(group.epoch)


def _member_changes(
    old: GroupDescription | None, new: GroupDescription | None
) -> Iterator[tuple[str, str, str]]:
    were, are = _members(old), _members(new)
    for name in sorted(were.keys() | are.keys()):
        if (name in were) != (name in are):
            yield "member", *((name, NOBODY) if name in were else (NOBODY, name))
        elif were[name] != are[name]:
            yield f"epoch of {name}", were[name], are[name]


def _members(group: GroupDescription | None) -> dict[str, str]:
    """The epoch of each member."""
    members = group.members if group is not None else ()
    return {member.member_id: NOBODY if member.epoch is None else str(member.epoch) for member in members}


def _reader_changes(
    old: GroupDescription | None, new: GroupDescription | None
) -> Iterator[tuple[str, str, str]]:
    were, are = _readers(old), _readers(new)
    for topic_partition in sorted(were.keys() | are.keys()):
        yield (
            f"{topic_partition[0]}-{topic_partition[1]}",
            were.get(topic_partition, NOBODY),
            are.get(topic_partition, NOBODY),
        )


def _readers(group: GroupDescription | None) -> dict[tuple[str, int], str]:
    """Return the readers of each partition: several in a share group, and for a moment in any group."""
    readers: dict[tuple[str, int], list[str]] = {}
    for member in group.members if group is not None else ():
        for topic_partition in member.assignment:
            readers.setdefault((topic_partition.topic, topic_partition.partition), []).append(
                member.member_id
            )
    return {topic_partition: ", ".join(sorted(names)) for topic_partition, names in readers.items()}


def watch(admin: Admin, options: argparse.Namespace) -> None:
    """Print the changes of groups until Ctrl-C, or for `options.seconds`.

    Errors are printed, and do not end it.
    """
    known: dict[str, Groups] = {name: {} for name in options.names}
    trouble = ""
    end = None if options.seconds is None else time.monotonic() + options.seconds
    while True:
        try:
            for name in options.names:
                now = admin.groups_named(name)
                _print(name, list(changes(known[name], now)), options.format)
                known[name] = now
            trouble = ""
        except OttlaError as error:
            if str(error) != trouble:
                trouble = str(error)
                sys.stderr.write(f"{_clock()}  {trouble}\n")
        if end is not None and time.monotonic() >= end:
            return
        time.sleep(options.interval)


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def _print(name: str, changes: list[Change], format: str) -> None:
    if format != TABLE:
        rows: list[tuple[Cell, ...]] = [(_clock(), name, *change) for change in changes]
        if rows:
            print_rows(OutputRows(COLUMNS, rows), format)
        return
    for change in changes:
        label = f"{name} {change.kind} {change.group_type}".rstrip()
        print_line(f"{_clock()}  {label:32}  {change.what}: {change.before} → {change.after}")

"""`ottla groups`: groups of every kind, with a coordinator and in ZooKeeper, side by side."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.connection_options import properties_of
from ottla.cli.output import Cell, OutputRows, Parser, new_parser, run_command

if TYPE_CHECKING:
    from ottla.admin import Admin


DESCRIBED = (
    *("group", "kind", "type", "state", "assignor", "epoch", "offsets", "used"),
    *("member", "member_epoch", "client", "host", "partitions"),
)


def parser() -> Parser:
    """`groups` and its options."""
    about = "List, describe, watch and delete groups. With --zookeeper, classic ones too."
    parser = new_parser("groups", about)
    actions = ["list", "describe", "watch", "delete"]
    parser.add_argument("action", nargs="?", default="list", choices=actions, help="list by default")
    parser.add_argument("names", nargs="*", metavar="GROUP")
    parser.add_argument("--dry-run", action="store_true", help="change nothing")
    parser.add_argument(
        "--interval", type=float, default=0.5, metavar="SECONDS", help="watch: between two looks (0.5)"
    )
    parser.add_argument("--seconds", type=float, metavar="N", help="watch: end after N seconds")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the action."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> OutputRows | None:
    from ottla.admin import Admin

    if options.action != "list" and not options.names:
        parser().error(f"which groups? ottla groups {options.action} GROUP …")
    with Admin(properties_of(options)) as admin:
        if options.action == "list":
            rows: list[tuple[Cell, ...]] = [
                (group.group_id, group.kind.value, group.group_type, group.protocol_type, group.state)
                for group in admin.list_groups()
            ]
            return OutputRows(("group", "kind", "type", "protocol", "state"), rows)
        if options.action == "watch":
            from ottla.cli.group_watch import watch

            watch(admin, options)
            return None
        if options.action == "describe":
            return _described(admin, options.names)
        return _deleted(admin, options)


def _described(admin: Admin, names: list[str]) -> OutputRows:
    """A row for each member; a group without members has one row without a member.

    A name that both stores know has rows for each: `offsets` counts the partitions with an offset there,
    `used` says whether live members use them.
    """
    rows: list[tuple[Cell, ...]] = []
    admin.describe_groups(names)  # which raises errors for unknown names
    for name in names:
        groups = admin.groups_named(name)
        stored = [offset for row in admin.group_lag(name).partitions for offset in row.stored]
        for kind, group in groups.items():
            uses = [offset.is_used for offset in stored if offset.store is kind]
            used = True if True in uses else None if None in uses or not uses else False
            what = (name, group.kind.value, group.group_type, group.state, group.assignor, group.epoch)
            head = (*what, len(uses), used)
            rows += [(*head, None, None, None, None, 0)] if not group.members else []
            rows += [
                (*head, member.member_id, member.epoch, member.client_id, member.host, len(member.assignment))
                for member in group.members
            ]
    return OutputRows(DESCRIBED, rows)


def _deleted(admin: Admin, options: argparse.Namespace) -> OutputRows:
    from ottla.model.errors import AdminErrors

    errors: Mapping[str, Exception] = {}
    try:
        if options.dry_run:
            admin.describe_groups(options.names)
        else:
            admin.delete_groups(options.names)
    except AdminErrors as failed:
        errors = failed.errors
    rows = [(name, str(errors[name]) if name in errors else None) for name in options.names]
    return OutputRows(("group", "error"), list(rows))

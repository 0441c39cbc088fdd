"""`ottla groups`: groups of both kinds, with a coordinator and in ZooKeeper, side by side."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.connection_options import properties_of
from ottla.cli.output import Cell, Parser, Rows, new_parser, run_command

if TYPE_CHECKING:
    from ottla.admin import Admin


def parser() -> Parser:
    """`groups` and its options."""
    parser = new_parser("groups", "List, describe and delete groups. With --zookeeper, classic ones too.")
    actions = ["list", "describe", "delete"]
    parser.add_argument("action", nargs="?", default="list", choices=actions, help="list if nothing is said")
    parser.add_argument("names", nargs="*", metavar="GROUP")
    parser.add_argument("--dry-run", action="store_true", help="change nothing")
    return parser


def run(arguments: Sequence[str]) -> int:
    """One action."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> Rows:
    from ottla.admin import Admin

    if options.action != "list" and not options.names:
        parser().error(f"which groups? ottla groups {options.action} GROUP …")
    with Admin(properties_of(options)) as admin:
        if options.action == "list":
            rows: list[tuple[Cell, ...]] = [
                (one.group_id, one.kind.value, one.group_type, one.state) for one in admin.list_groups()
            ]
            return Rows(("group", "kind", "type", "state"), rows)
        if options.action == "describe":
            return _described(admin, options.names)
        return _deleted(admin, options)


def _described(admin: Admin, names: list[str]) -> Rows:
    """A row for each member; one without a member for a group that has none."""
    rows: list[tuple[Cell, ...]] = []
    for name, group in admin.describe_groups(names).items():
        head = (name, group.kind.value, group.state)
        rows += [(*head, None, None, None, 0)] if not group.members else []
        rows += [
            (*head, one.member_id, one.client_id, one.host, len(one.assignment)) for one in group.members
        ]
    return Rows(("group", "kind", "state", "member", "client", "host", "partitions"), rows)


def _deleted(admin: Admin, options: argparse.Namespace) -> Rows:
    from ottla.admin import AdminErrors

    errors: Mapping[str, Exception] = {}
    try:
        if options.dry_run:
            admin.describe_groups(options.names)
        else:
            admin.delete_groups(options.names)
    except AdminErrors as failed:
        errors = failed.errors
    told = [(name, str(errors[name]) if name in errors else None) for name in options.names]
    return Rows(("group", "error"), list(told))

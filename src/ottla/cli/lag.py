"""`ottla lag`: how far groups are behind, once or again and again."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.connection_options import properties_of
from ottla.cli.output import TABLE, Cell, Parser, Rows, new_parser, print_rows, run_command

if TYPE_CHECKING:
    from ottla.admin import Admin

COLUMNS = ("group", "kind", "topic", "partition", "committed", "end", "lag", "member", "error")
_CLEAR = "\033[2J\033[H"


def parser() -> Parser:
    """`lag` and its options."""
    parser = new_parser("lag", "Tell how far groups are behind; all groups if none is named.")
    parser.add_argument("names", nargs="*", metavar="GROUP")
    parser.add_argument(
        "-w",
        "--watch",
        type=float,
        nargs="?",
        const=2.0,
        metavar="SECONDS",
        help="again and again (every 2 s)",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print the lag."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> Rows:
    from ottla.admin import Admin

    with Admin(properties_of(options)) as admin:
        while options.watch is not None:
            found = _rows(admin, options.names)
            if options.format == TABLE and sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            print_rows(found, options.format)
            time.sleep(options.watch)
        return _rows(admin, options.names)


def _rows(admin: Admin, names: list[str]) -> Rows:
    wanted = names or sorted({one.group_id for one in admin.list_groups()})
    rows: list[tuple[Cell, ...]] = []
    for group, found in (admin.group_lag(wanted) if wanted else {}).items():
        for one in found.partitions:
            member = one.member.member_id if one.member is not None else None
            error = str(one.error) if one.error is not None else None
            place = (group, found.group.kind.value, *one.topic_partition)
            rows.append((*place, one.committed, one.end, one.lag, member, error))
    return Rows(COLUMNS, rows)

"""`ottla lag`: how far groups are behind, once, again and again, or as often as Prometheus asks."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.connection_options import properties_of
from ottla.cli.output import TABLE, Cell, Parser, Rows, new_parser, print_rows, run_command

if TYPE_CHECKING:
    from ottla.admin import Admin, GroupLag

log = logging.getLogger(__name__)

PROMETHEUS = "prometheus"
COLUMNS = ("group", "kind", "topic", "partition", "committed", "end", "lag", "member", "error")
_CLEAR = "\033[2J\033[H"


def parser() -> Parser:
    """`lag` and its options."""
    about = "Tell how far groups are behind; all groups if none is named."
    parser = new_parser("lag", about, more_formats=(PROMETHEUS,))
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
    parser.add_argument(
        "--prometheus", metavar="[HOST:]PORT", help="serve gauges at http://HOST:PORT/metrics (on 127.0.0.1)"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print the lag."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> Rows | None:
    from ottla.admin import Admin
    from ottla.admin.lag_gauges import lag_exposition

    if options.watch is not None and (options.prometheus or options.format == PROMETHEUS):
        parser().error("--watch is for people; --prometheus PORT is asked again and again")
    with Admin(properties_of(options)) as admin:
        if options.prometheus is not None:
            from ottla.cli.lag_server import serve

            serve(options.prometheus, lambda: lag_exposition(_lags(admin, options.names)))
            return None
        if options.format == PROMETHEUS:
            sys.stdout.write(lag_exposition(_lags(admin, options.names)))
            return None
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


def _lags(admin: Admin, names: list[str]) -> list[GroupLag]:
    """Of both kinds, also of one name. A group that has just gone does not hide the others."""
    from ottla.admin import AdminErrors, GroupKind

    found: list[GroupLag] = []
    listed = [one for one in admin.list_groups() if not names or one.group_id in names]
    for kind in GroupKind:
        try:
            found += admin.group_lag([one.group_id for one in listed if one.kind is kind], kind=kind).values()
        except AdminErrors as error:
            log.warning("some groups are left out: %s", error)
            found += error.results.values()
    return found

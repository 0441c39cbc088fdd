"""`ottla reset`: move a group without members. Without --execute it only says where to."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.connection_options import properties_of
from ottla.cli.output import Parser, Rows, new_parser, run_command

if TYPE_CHECKING:
    from ottla.admin.logs import Moment


def parser() -> Parser:
    """`reset` and its options."""
    parser = new_parser("reset", "Move a group that has no members.")
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="a topic, or topic:0,1,2")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="WHERE", help="earliest, latest, or a time: 2020-01-01T00:00:00 (UTC)")
    where.add_argument("--to-offset", type=int, metavar="N", help="this offset")
    where.add_argument("--shift-by", type=int, metavar="N", help="so many on, or back if it is negative")
    parser.add_argument("--execute", action="store_true", help="do it")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, as without --execute")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Move it, or say where to."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> Rows:
    from ottla.admin import Admin, At
    from ottla.cli.kafka.group_resets import partitions_of

    is_done = options.execute and not options.dry_run
    with Admin(properties_of(options)) as admin:
        places = partitions_of(admin, options.topics)
        if options.to_offset is not None:
            first = admin.reset_group_offsets(options.group, places, At.EARLIEST, dry_run=True)
            end = admin.reset_group_offsets(options.group, places, At.LATEST, dry_run=True)
            moves = {
                place: (
                    first[place].before,
                    min(max(options.to_offset, first[place].after), end[place].after),
                )
                for place in first
            }
            if is_done:
                admin.alter_group_offsets(
                    options.group, {place: after for place, (_, after) in moves.items()}
                )
        else:
            found = admin.reset_group_offsets(
                options.group,
                places,
                _moment(options.to),
                shift_by=options.shift_by or 0,
                dry_run=not is_done,
            )
            moves = {place: (one.before, one.after) for place, one in found.items()}
    return Rows(
        ("group", "topic", "partition", "before", "after", "done"),
        [(options.group, *place, before, after, is_done) for place, (before, after) in sorted(moves.items())],
    )


def _moment(text: str | None) -> Moment | None:
    from ottla.admin import At
    from ottla.cli.kafka.group_resets import parse_datetime

    if text is None:
        return None
    named = {"earliest": At.EARLIEST, "latest": At.LATEST}
    return named[text] if text in named else parse_datetime(text)

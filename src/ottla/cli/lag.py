"""`ottla lag`: how far groups are behind: once, repeatedly, or for Prometheus."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.connection_options import properties_of
from ottla.cli.output import TABLE, Cell, OutputRows, Parser, bold, new_parser, print_rows, run_command
from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    from ottla.admin import Admin, GroupLag, PartitionLag
    from ottla.cli.lag_screen import LagTotals

log = logging.getLogger(__name__)

PROMETHEUS = "prometheus"
COLUMNS = (
    *("group", "kind", "topic", "partition", "committed", "end", "lag", "seconds"),
    *("store", "used", "member", "error"),
)
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\033[H", "\033[K", "\033[J"


def parser() -> Parser:
    """`lag` and its options."""
    about = "Show how far groups are behind; all groups if none is named."
    parser = new_parser("lag", about, more_formats=(PROMETHEUS,))
    parser.add_argument("names", nargs="*", metavar="GROUP")
    parser.add_argument(
        "-w",
        "--watch",
        type=float,
        nargs="?",
        const=2.0,
        metavar="SECONDS",
        help="repeat, every 2 s if nothing else is given",
    )
    parser.add_argument(
        "--prometheus", metavar="[HOST:]PORT", help="serve gauges at http://HOST:PORT/metrics (on 127.0.0.1)"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print the lag."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> OutputRows | None:
    from ottla.admin import Admin
    from ottla.admin.lag_gauges import lag_exposition

    if options.watch is not None and not options.watch >= 0:
        parser().error(f"--watch {options.watch}: give the seconds between two looks")
    if options.watch is not None and (options.prometheus or options.format == PROMETHEUS):
        parser().error("--watch is for people; Prometheus asks for the lag when it wants it")
    with Admin(properties_of(options)) as admin:
        if options.prometheus is not None:
            from ottla.cli.lag_server import serve

            serve(options.prometheus, lambda: lag_exposition(_lags(admin, options.names)))
            return None
        if options.format == PROMETHEUS:
            sys.stdout.write(lag_exposition(_lags(admin, options.names)))
            return None
        if options.watch is not None:
            _watch(admin, options)
        return _rows(_looked_up(admin, options.names))


def _watch(admin: Admin, options: argparse.Namespace) -> None:
    """Print the lag again and again; on a terminal over the last one.

    There an error replaces the line of totals until the lag is known again.
    """
    from ottla.cli.lag_screen import screen, totals

    is_screen = options.format == TABLE and sys.stdout.isatty()
    before: LagTotals | None = None
    while True:
        clock, size = time.strftime("%H:%M:%S"), shutil.get_terminal_size()
        try:
            lags = _looked_up(admin, options.names)
        except OttlaError as error:
            if before is None or not is_screen:
                raise
            _paint([f"{clock}  {error}"[: size.columns - 1]])
        else:
            if is_screen:
                now = totals(lags, time.monotonic())
                summary, titles, *lines = screen(_rows(lags), now, before, clock, size)
                _paint([summary, bold(titles), *lines], _REST_OF_SCREEN)
                before = now
            else:
                print_rows(_rows(lags), options.format)
        time.sleep(options.watch)


def _paint(lines: Sequence[str], end: str = "") -> None:
    """Write lines over those at the top of the screen."""
    sys.stdout.write(_HOME + "".join(f"{line}{_REST_OF_LINE}\n" for line in lines) + end)
    sys.stdout.flush()


def _looked_up(admin: Admin, names: list[str]) -> dict[str, GroupLag]:
    wanted = names or sorted({group.group_id for group in admin.list_groups()})
    return admin.group_lag(wanted) if wanted else {}


def _rows(lags: Mapping[str, GroupLag]) -> OutputRows:
    rows: list[tuple[Cell, ...]] = []
    for group, group_lag in lags.items():
        for partition in group_lag.partitions:
            rows += _partition_rows(
                (group, group_lag.group.kind.value, *partition.topic_partition), partition
            )
    return OutputRows(COLUMNS, rows)


def _partition_rows(names: tuple[Cell, ...], partition: PartitionLag) -> list[tuple[Cell, ...]]:
    """A row for each store that has an offset; one without a store if none has one that counts."""
    member = partition.member.member_id if partition.member is not None else None
    error = str(partition.error) if partition.error is not None else partition.stopped or None
    rows: list[tuple[Cell, ...]] = [
        (
            *(*names, offset.offset, partition.end, partition.behind(offset.offset)),
            _seconds(partition) if offset.store is partition.stored_in else None,
            *(offset.store.value, offset.is_used, None if offset.is_used is False else member, error),
        )
        for offset in partition.stored
    ]
    if partition.committed is None:
        rows.append((*names, None, partition.end, None, None, None, None, member, error))
    return rows


def _seconds(partition: PartitionLag) -> float | None:
    return None if partition.seconds is None else round(partition.seconds, 1)


def _lags(admin: Admin, names: list[str]) -> list[GroupLag]:
    """The lag of groups of every kind, even with the same name.

    A group that disappears meanwhile is left out.
    """
    from ottla.admin import GroupKind
    from ottla.model.errors import AdminErrors

    lags: list[GroupLag] = []
    listed = [group for group in admin.list_groups() if not names or group.group_id in names]
    for kind in GroupKind:
        try:
            lags += admin.group_lag(
                [listing.group_id for listing in listed if listing.kind is kind], kind=kind
            ).values()
        except AdminErrors as error:
            log.warning("some groups are left out: %s", error)
            lags += error.results.values()
    return lags

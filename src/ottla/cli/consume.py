"""`ottla consume`: prints records as they arrive.

JSON is one object per line, so that it may continue for ever.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ottla.cli.connection_options import opened_admin, properties_of
from ottla.cli.moments import MOMENTS, parse_moment
from ottla.cli.output import (
    JSON,
    TSV,
    Cell,
    Parser,
    new_parser,
    print_json,
    print_line,
    run_command,
    tsv_cell,
)
from ottla.cli.progress import ProgressLine
from ottla.cli.typed_values import add_value_options, frame_note, value_decoder
from ottla.model.record_text import record_texts

if TYPE_CHECKING:
    from ottla.cli.kafka.message_formatters import Record
    from ottla.model.offset_spec import OffsetSpec

COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers", "encoding")
RESETS = ("earliest", "latest")


def parser() -> Parser:
    """`consume` and its options."""
    parser = new_parser("consume", "Print records of a topic.")
    parser.add_argument("topic")
    parser.add_argument("-g", "--group", help="continue at this group's committed position, and commit")
    parser.add_argument("-p", "--partition", type=int, help="one partition only")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-o",
        "--from",
        dest="start",
        metavar="WHERE",
        help="earliest, latest (the default) or an offset of --partition",
    )
    where.add_argument("--since", metavar="WHEN", help=f"records since {MOMENTS}")
    where.add_argument("--tail", type=int, metavar="N", help="begin N records before each partition's end")
    parser.add_argument("-n", "--max", type=int, help="end after this many records")
    parser.add_argument(
        "-t", "--timeout-ms", type=int, default=-1, help="end after this many milliseconds without a record"
    )
    add_value_options(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print records until --max or --timeout-ms is reached, or until it is interrupted."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> None:
    from ottla.cli.kafka.record_sources import Wish, records

    if options.max is not None and options.max < 0:
        parser().error(f"--max {options.max}: a number from 0 on is wanted")
    start = _start(options)
    decode = value_decoder(options)
    properties = {"include.headers": True, **properties_of(options)}
    if not options.zookeeper:
        properties.pop("zookeeper.connect", None)
    has_brokers = "zookeeper.connect" not in properties
    wish = Wish(
        properties=properties,
        topic=options.topic,
        pattern=None,
        excluded=None,
        group=options.group or (f"ottla-consume-{random.randrange(100_000)}" if options.zookeeper else ""),
        is_group_made_up=not options.group,
        partition=options.partition,
        start=start,
        timeout_ms=options.timeout_ms,
        deletes_group=False,
        starts=_checked_starts(properties, options.topic, options.tail) if has_brokers else {},
    )
    if options.format == TSV:
        print_line("\t".join(COLUMNS))
    is_seen = sys.stdout.isatty()  # then the printed records show the progress
    with (
        records(wish) as source,
        ProgressLine(options.max, "records", is_shown=not is_seen) as progress,
    ):
        for record in islice(source, options.max):
            _print(record, options.format, decode)
            progress.update(1)


def _start(options: argparse.Namespace) -> OffsetSpec:
    """Where to begin; wrong combinations of flags end the command."""
    if options.since is not None or options.tail is not None:
        flag = "--tail" if options.since is None else "--since"
        if options.group or options.zookeeper:
            parser().error(f"{flag} is without a group: ottla reset moves one")
        if options.tail is not None and options.tail < 0:
            parser().error(f"--tail {options.tail}: a number from 0 on is wanted")
        return "earliest" if options.since is None else parse_moment("--since", options.since)
    start: str = options.start or "latest"
    if start in RESETS:
        return start
    if not start.isdecimal():
        parser().error(f"--from {start}: earliest, latest or an offset is wanted; a time is --since WHEN")
    if options.partition is None:
        parser().error(f"--from {start}: an offset is of one partition; give --partition too")
    return int(start)


def _checked_starts(properties: Mapping[str, object], topic: str, tail: int | None) -> dict[int, int]:
    """Return where to begin in each partition, for the last `tail` records; {} if that is None.

    Raises if the brokers or the topic do not exist. A consumer would wait for them silently.
    """
    with opened_admin(properties) as admin:
        admin.describe_topics(topic)
        if tail is None:
            return {}
        first, end = (admin.list_offsets(topic, at) for at in ("earliest", "latest"))
    return {each.partition: max(first[each].offset or 0, (end[each].offset or 0) - tail) for each in end}


def _print(record: Record, form: str, decode: Callable[[bytes], bytes]) -> None:
    content = None if record.raw_value is None else decode(record.raw_value)
    key, value, headers, encoding = record_texts(record.raw_key, content, record.headers)
    row: tuple[Cell, ...] = (record.topic, record.partition, record.offset, record.timestamp_ms, key, value)
    if form == JSON:
        print_json(dict(zip(COLUMNS, (*row, headers, encoding), strict=True)))
    elif form == TSV:
        in_json = json.dumps(headers, ensure_ascii=False) if headers else None
        print_line("\t".join(tsv_cell(cell) for cell in (*row, in_json, encoding)))
    else:
        position = f"{record.partition}:{record.offset}"
        shown = "null" if value is None else value + frame_note(content)
        print_line("\t".join([position, *([key] if key is not None else []), shown]))

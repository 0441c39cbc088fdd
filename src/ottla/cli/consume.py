"""`ottla consume`: records as they come. With JSON an object a line, so that it may go on for ever."""

from __future__ import annotations

import argparse
import base64
import random
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ottla.cli.connection_options import properties_of
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
from ottla.cli.progress import Progress

if TYPE_CHECKING:
    from ottla.cli.kafka.message_formatters import Record

COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "encoding")


def parser() -> Parser:
    """`consume` and its options."""
    parser = new_parser("consume", "Print records of a topic.")
    parser.add_argument("topic")
    parser.add_argument("-g", "--group", help="go on where this group was, and store how far it is")
    parser.add_argument("-p", "--partition", type=int, help="one partition only")
    parser.add_argument(
        "-o", "--from", dest="start", default="latest", metavar="WHERE", help="earliest, latest or an offset"
    )
    parser.add_argument("-n", "--max", type=int, help="end after so many")
    parser.add_argument("-t", "--timeout-ms", type=int, default=-1, help="end when nothing came for so long")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print until there are enough of them, or nobody wants more."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> None:
    from ottla.cli.kafka.record_sources import Wish, records

    if options.start not in ("earliest", "latest") and options.partition is None:
        parser().error(f"--from {options.start}: an offset is of one partition; give --partition too")
    properties = {"include.headers": True, **properties_of(options)}
    if not options.zookeeper:
        properties.pop("zookeeper.connect", None)
    start = options.start if options.start in ("earliest", "latest") else int(options.start)
    wish = Wish(
        properties=properties,
        topic=options.topic,
        pattern=None,
        excluded=None,
        group=options.group or f"ottla-consume-{random.randrange(100_000)}",
        is_group_made_up=not options.group,
        partition=options.partition,
        start=start,
        timeout_ms=options.timeout_ms,
        deletes_group=False,
    )
    if "zookeeper.connect" not in properties:
        _check_topic(properties, options.topic)
    if options.format == TSV:
        print_line("\t".join(COLUMNS))
    is_seen = sys.stdout.isatty()  # then records are progress enough
    with records(wish) as found, Progress(options.max, "records") as progress:
        for record in islice(found, options.max):
            _print(record, options.format)
            if not is_seen:
                progress.update(1)


def _check_topic(properties: Mapping[str, object], topic: str) -> None:
    """A reader would wait for brokers and topics to come; people want to know that they are not there."""
    from ottla.admin import Admin
    from ottla.client.config import CLIENT_PROPERTIES
    from ottla.client.properties import snake

    known = {name for row in CLIENT_PROPERTIES for name in row.names}
    with Admin({name: value for name, value in properties.items() if snake(name) in known}) as admin:
        admin.describe_topics(topic)


def _print(record: Record, form: str) -> None:
    key, value, encoding = _texts(record.raw_key, record.raw_value)
    row: tuple[Cell, ...] = (record.topic, record.partition, record.offset, record.timestamp_ms)
    row = (*row, key, value, encoding)
    if form == JSON:
        print_json(dict(zip(COLUMNS, row, strict=True)))
    elif form == TSV:
        print_line("\t".join(tsv_cell(cell) for cell in row))
    else:
        place = f"{record.partition}:{record.offset}"
        print_line(
            "\t".join([place, *([key] if key is not None else []), "null" if value is None else value])
        )


def _texts(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None, str]:
    """As text if both are UTF-8, else both in base64."""
    try:
        return _decoded(key), _decoded(value), "utf-8"
    except UnicodeDecodeError:
        return _base64(key), _base64(value), "base64"


def _decoded(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()

"""`ottla search`: the records of a topic that have a key, contain a text or meet a condition."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.connection_options import add_schemas_option, opened_admin, properties_of
from ottla.cli.moments import MOMENTS, parse_moment
from ottla.cli.output import JSON, TSV, Parser, new_parser, print_json, print_line, run_command, tsv_cell
from ottla.cli.progress import ProgressLine
from ottla.model.record_text import record_texts

if TYPE_CHECKING:
    from ottla.query.scan import Scan
    from ottla.schemas.json_texts import JsonTexts

COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers", "encoding")


def parser() -> Parser:
    """`search` and its options."""
    parser = new_parser("search", "Print the records of a topic that are looked for, as they are found.")
    parser.add_argument("topic")
    parser.add_argument("-k", "--key", help="records with exactly this key")
    parser.add_argument("-c", "--contains", metavar="TEXT", help="records whose value contains this text")
    parser.add_argument(
        "-w", "--where", metavar="CONDITION", help="records that meet a condition in SQL, such as amount > 3"
    )
    parser.add_argument("-p", "--partition", type=int, help="one partition only")
    parser.add_argument("--since", metavar="WHEN", help=f"records since {MOMENTS}")
    parser.add_argument("--until", metavar="WHEN", help="records before that")
    parser.add_argument("-n", "--max", type=int, help="end after this many hits")
    add_schemas_option(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print hits until the end of the topic, --max, or Ctrl-C."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> None:
    from ottla.query.scan import scan
    from ottla.schemas.json_texts import json_texts_of

    json_texts = json_texts_of(options.schemas)
    if options.max is not None and options.max < 1:
        parser().error(f"--max {options.max}: a number from 1 on is wanted")
    properties = properties_of(options)
    with opened_admin(properties) as admin:
        admin.describe_topics(options.topic)  # a scan would wait for a broker or a topic that is not there
    if options.format == TSV:
        print_line("\t".join(COLUMNS))
    with scan(
        options.topic,
        None if options.partition is None else [options.partition],
        "earliest" if options.since is None else parse_moment("--since", options.since),
        "latest" if options.until is None else parse_moment("--until", options.until),
        key=options.key,
        contains=options.contains,
        where=options.where,
        headers=True,
        schemas=options.schemas,
        properties=properties,
    ) as hits:
        try:
            _print_hits(hits, options, json_texts)
        finally:
            progress = hits.progress
            sys.stderr.write(
                f"{progress.records:,} found in {progress.offsets:,} of {progress.offsets_total:,} records\n"
            )


def _print_hits(scan: Scan, options: argparse.Namespace, json_texts: JsonTexts | None) -> None:
    shown = 0
    with ProgressLine(
        sum(part.stop - part.start for part in scan.ranges.values()),
        "records",
        count=lambda: scan.progress.offsets,
        is_shown=not sys.stdout.isatty(),
    ):
        for row in _rows(scan):
            if json_texts is not None:
                for part in ("key", "value"):
                    row[part] = json_texts.encoded(row[part], f"{options.topic}-{part}")
            _print(options.topic, row, options.format)
            shown += 1
            if shown == options.max:
                return


def _rows(scan: Scan) -> Iterator[dict[str, Any]]:
    from ottla.records.columns import plain_rows

    for batch in scan:
        yield from plain_rows(batch)


def _print(topic: str, row: dict[str, Any], form: str) -> None:
    pairs = [(header["key"], header["value"]) for header in row["headers"]]
    key, value, headers, encoding = record_texts(row["key"], row["value"], pairs)
    cells = (topic, row["partition"], row["offset"], row["timestamp"], key, value)
    if form == JSON:
        print_json(dict(zip(COLUMNS, (*cells, headers, encoding), strict=True)))
    elif form == TSV:
        in_json = json.dumps(headers, ensure_ascii=False) if headers else None
        print_line("\t".join(tsv_cell(cell) for cell in (*cells, in_json, encoding)))
    else:
        position = f"{row['partition']}:{row['offset']}"
        shown = [position, *([key] if key is not None else []), "null" if value is None else value]
        print_line("\t".join(shown))

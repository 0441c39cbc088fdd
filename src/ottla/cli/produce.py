"""`ottla produce`: sends lines of standard input to a topic, and prints the stored offsets by partition."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from ottla.cli.connection_options import properties_of, without
from ottla.cli.output import OutputRows, Parser, new_parser, run_command
from ottla.cli.progress import ProgressLine
from ottla.cli.typed_values import add_value_options, value_encoder
from ottla.model.errors import OttlaError


class NotStored(OttlaError):
    """Records were sent but not stored."""


def parser() -> Parser:
    """`produce` and its options."""
    parser = new_parser("produce", "Send lines of standard input, each a record.")
    parser.add_argument("topic")
    parser.add_argument("-k", "--key-separator", metavar="TEXT", help="text between key and value in a line")
    parser.add_argument("-p", "--partition", type=int, help="the partition for all records")
    add_value_options(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Send until the input ends."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> OutputRows:
    from ottla.cli.kafka.console_producer import lines
    from ottla.cli.kafka.line_reader import LineReader
    from ottla.producer import Delivery, Producer

    reading = {"parse.key": "true", "key.separator": options.key_separator} if options.key_separator else {}
    reader = LineReader({**reading, "ignore.error": "true"}, is_old=False)
    encode = value_encoder(options)
    counts: Counter[int] = Counter()

    failures: list[OttlaError] = []

    def note(delivery: Delivery) -> None:
        error = delivery.exception(0)
        if error is None:
            counts[delivery.result(0).partition] += 1
        else:
            failures.append(error)

    is_typed = sys.stdin.isatty()  # on a terminal, our line would appear between those of the user
    properties = without(properties_of(options), "zookeeper.connect")
    with Producer(properties) as producer, ProgressLine(unit="records", is_shown=not is_typed) as progress:
        producer.check_brokers()
        for line in lines():
            record = reader.read(line)
            value = None if record.value is None else encode(record.value)
            producer.send(options.topic, value, record.key, options.partition, on_delivery=note)
            progress.update(1)
        producer.flush()
    if failures:
        total = len(failures) + counts.total()
        raise NotStored(f"{len(failures)} of {total} records were not stored: {failures[0]}")
    return OutputRows(
        ("topic", "partition", "records"),
        [(options.topic, partition, count) for partition, count in sorted(counts.items())],
    )

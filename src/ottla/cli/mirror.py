"""`ottla mirror`: copies topics of one cluster into another, or moves a group there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ottla.cli.connection_options import add_schemas_option, named_values, properties_of
from ottla.cli.output import OutputRows, Parser, log_to_stderr, new_parser, run_command
from ottla.cli.progress import ProgressLine

GROUP = "ottla-mirror"


def parser() -> Parser:
    """`mirror` and its options."""
    parser = new_parser(
        "mirror",
        "Copy topics of the cluster that -b or --zookeeper names into another one, until it is interrupted. "
        "With --translate: set the positions of a stopped group on the other cluster.",
    )
    parser.add_argument("--to", metavar="HOST:PORT,…", help="brokers of the other cluster")
    parser.add_argument(
        "--to-config", metavar="FILE", help="settings of its producer, a Java properties file"
    )
    parser.add_argument(
        "--to-set", action="append", default=[], metavar="NAME=VALUE", help="a setting of its producer"
    )
    parser.add_argument("--topics", metavar="REGEX", help="topics to copy, a Java regular expression")
    parser.add_argument("--except", dest="left_out", metavar="REGEX", help="copy all topics but these")
    parser.add_argument("--group", default=GROUP, help=f"the mirror's group (default {GROUP})")
    parser.add_argument("--streams", type=int, default=1, help="threads that read (default 1)")
    parser.add_argument(
        "--partitions", choices=("same", "key"), default="same", help="as on the source, or by the key"
    )
    parser.add_argument(
        "--handler", metavar="MODULE:NAME", help="a function that turns a record into any number of records"
    )
    add_schemas_option(parser)
    parser.add_argument(
        "--exactly-once", action="store_true", help="copy in transactions of the other cluster: nothing twice"
    )
    parser.add_argument(
        "--commit-interval-ms", type=int, help="default 10000; with --exactly-once 1000, per transaction"
    )
    parser.add_argument("--drop-failures", action="store_true", help="continue when records cannot be sent")
    parser.add_argument("--no-topics", action="store_true", help="do not create topics on the other cluster")
    parser.add_argument("--translate", metavar="GROUP", help="move a stopped group, and mirror nothing")
    parser.add_argument(
        "--dry-run", action="store_true", help="with --translate: only show the new positions"
    )
    parser.add_argument("--verbose", action="store_true", help="log more")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Mirror topics, or translate a group's positions."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> OutputRows:
    log_to_stderr(verbose=options.verbose)
    return _translated(options) if options.translate else _mirrored(options)


def _mirrored(options: argparse.Namespace) -> OutputRows:
    from ottla.cli.kafka.mirror_maker import named, stopped_by_signals
    from ottla.consumer.classic import Blacklist, Whitelist
    from ottla.mirror import Mirror
    from ottla.schemas.json_texts import json_texts_of

    if bool(options.topics) == bool(options.left_out):
        parser().error("which topics? Give --topics or --except")
    texts = json_texts_of(options.schemas)
    decode = None if texts is None else texts.row
    mirror = Mirror(
        {**properties_of(options), "group.id": options.group},
        _target(options),
        Whitelist(options.topics) if options.topics else Blacklist(options.left_out),
        streams=options.streams,
        placement=options.partitions,
        handler=named(options.handler) if options.handler else None,
        key_deserializer=decode,
        value_deserializer=decode,
        offset_commit_interval=_interval_ms(options) / 1000,
        aborts_on_failure=not options.drop_failures,
        follows_topics=not options.no_topics,
        exactly_once=options.exactly_once,
    )
    with (
        stopped_by_signals(mirror.stop),
        ProgressLine(unit="records mirrored", count=lambda: mirror.metrics().sent),
    ):
        mirror.run()
    metrics = mirror.metrics()
    return OutputRows(("sent", "dropped", "commits"), [(metrics.sent, metrics.dropped, metrics.commits)])


def _interval_ms(options: argparse.Namespace) -> int:
    if options.commit_interval_ms is not None:
        return int(options.commit_interval_ms)
    return 1_000 if options.exactly_once else 10_000


def _translated(options: argparse.Namespace) -> OutputRows:
    from ottla.mirror import translate_group

    moved = translate_group(
        options.translate,
        options.group,
        source=properties_of(options),
        target=_target(options),
        dry_run=options.dry_run,
    )
    return OutputRows(
        ("topic", "partition", "offset"),
        [(*topic_partition, offset) for topic_partition, offset in sorted(moved.items())],
    )


def _target(options: argparse.Namespace) -> dict[str, object]:
    from ottla.cli.kafka.settings import file_properties

    properties: dict[str, object] = {**file_properties(options.to_config)}
    properties |= named_values("--to-set", options.to_set)
    if options.to:
        properties["bootstrap.servers"] = options.to
    if "bootstrap.servers" not in properties:
        parser().error("where to? Give --to HOST:PORT")
    return properties

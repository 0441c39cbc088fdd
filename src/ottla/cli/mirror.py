"""`ottla mirror`: topics of one cluster into another, until SIGINT or SIGTERM; and groups moved there."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from ottla.cli.connection_options import properties_of
from ottla.cli.output import Parser, Rows, new_parser, run_command

GROUP = "ottla-mirror"


def parser() -> Parser:
    """`mirror` and its options."""
    parser = new_parser(
        "mirror",
        "Copy topics of the cluster that -b or --zookeeper names into another one, until it is interrupted. "
        "With --translate: give a stopped group of the one its positions on the other.",
    )
    parser.add_argument("--to", metavar="HOST:PORT,…", help="brokers of the other cluster")
    parser.add_argument(
        "--to-config", metavar="FILE", help="settings of its producer, a Java properties file"
    )
    parser.add_argument(
        "--to-set", action="append", default=[], metavar="NAME=VALUE", help="one setting of its producer"
    )
    parser.add_argument("--topics", metavar="REGEX", help="topics to copy, a Java regular expression")
    parser.add_argument("--except", dest="left_out", metavar="REGEX", help="copy all topics but these")
    parser.add_argument("--group", default=GROUP, help=f"the mirror's group (default {GROUP})")
    parser.add_argument("--streams", type=int, default=1, help="threads that read (default 1)")
    parser.add_argument(
        "--partitions", choices=("same", "key"), default="same", help="as on the source, or by the key"
    )
    parser.add_argument("--handler", metavar="MODULE:NAME", help="a function that makes records of a record")
    parser.add_argument("--commit-interval-ms", type=int, default=10_000, help="default 10000")
    parser.add_argument("--drop-failures", action="store_true", help="go on when records cannot be sent")
    parser.add_argument("--no-topics", action="store_true", help="leave making topics to the other cluster")
    parser.add_argument("--translate", metavar="GROUP", help="move a stopped group, and mirror nothing")
    parser.add_argument("--dry-run", action="store_true", help="with --translate: only show where to")
    parser.add_argument("--verbose", action="store_true", help="log more")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Mirror, or translate."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> Rows:
    level = logging.INFO if options.verbose else logging.WARNING
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    return _translated(options) if options.translate else _mirrored(options)


def _mirrored(options: argparse.Namespace) -> Rows:
    from ottla.classic import Blacklist, Whitelist
    from ottla.cli.kafka.mirror_maker import named, stopped_by_signals
    from ottla.mirror import Mirror

    if bool(options.topics) == bool(options.left_out):
        parser().error("which topics? Give --topics or --except")
    mirror = Mirror(
        {**properties_of(options), "group.id": options.group},
        _target(options),
        Whitelist(options.topics) if options.topics else Blacklist(options.left_out),
        streams=options.streams,
        placement=options.partitions,
        handler=named(options.handler) if options.handler else None,
        commit_interval_ms=options.commit_interval_ms,
        aborts_on_failure=not options.drop_failures,
        follows_topics=not options.no_topics,
    )
    with stopped_by_signals(mirror.stop):
        mirror.run()
    told = mirror.metrics()
    return Rows(("sent", "dropped", "commits"), [(told.sent, told.dropped, told.commits)])


def _translated(options: argparse.Namespace) -> Rows:
    from ottla.mirror import translate_group

    moved = translate_group(
        options.translate,
        options.group,
        source=properties_of(options),
        target=_target(options),
        dry_run=options.dry_run,
    )
    return Rows(
        ("topic", "partition", "offset"), [(*place, offset) for place, offset in sorted(moved.items())]
    )


def _target(options: argparse.Namespace) -> dict[str, object]:
    from ottla.cli.kafka.settings import file_properties, pairs

    found: dict[str, object] = {**file_properties(options.to_config), **pairs(options.to_set)}
    if options.to:
        found["bootstrap.servers"] = options.to
    if "bootstrap.servers" not in found:
        parser().error("where to? Give --to HOST:PORT")
    return found

"""`ottla topics`: list, describe, create, delete."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.connection_options import named_values, properties_of
from ottla.cli.output import Cell, OutputRows, Parser, new_parser, run_command

if TYPE_CHECKING:
    from ottla.admin import Admin, NewTopic, TopicDescription


def parser() -> Parser:
    """`topics` and its options."""
    parser = new_parser("topics", "List, describe, create and delete topics.")
    actions = ["list", "describe", "create", "delete"]
    parser.add_argument("action", nargs="?", default="list", choices=actions, help="list by default")
    parser.add_argument("names", nargs="*", metavar="TOPIC")
    parser.add_argument(
        "-p", "--partitions", type=int, help="partitions of a new topic (the broker's default)"
    )
    parser.add_argument("-r", "--replicas", type=int, help="replicas of a new topic (the broker's default)")
    parser.add_argument(
        "--topic-config", action="append", default=[], metavar="NAME=VALUE", help="a setting of a new topic"
    )
    parser.add_argument("--internal", action="store_true", help="list Kafka's own topics too")
    parser.add_argument("--dry-run", action="store_true", help="change nothing")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the action."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> OutputRows:
    from ottla.admin import Admin

    if options.action in ("create", "delete") and not options.names:
        parser().error(f"which topics? ottla topics {options.action} TOPIC …")
    with Admin(properties_of(options)) as admin:
        if options.action == "list":
            return _listed(admin.describe_topics(admin.list_topics(include_internal=options.internal)))
        if options.action == "describe":
            return _described(admin.describe_topics(options.names or admin.list_topics()))
        if options.action == "create":
            return _created(admin, options)
        return _deleted(admin, options)


def _listed(topics: Mapping[str, TopicDescription]) -> OutputRows:
    rows: list[tuple[Cell, ...]] = [
        (name, len(topic.partitions), topic.replication_factor, topic.is_internal)
        for name, topic in topics.items()
    ]
    return OutputRows(("topic", "partitions", "replicas", "internal"), rows)


def _described(topics: Mapping[str, TopicDescription]) -> OutputRows:
    rows: list[tuple[Cell, ...]] = [
        (name, partition.partition, partition.leader, _joined(partition.replicas), _joined(partition.isr))
        for name, topic in topics.items()
        for partition in topic.partitions
    ]
    return OutputRows(("topic", "partition", "leader", "replicas", "isr"), rows)


def _created(admin: Admin, options: argparse.Namespace) -> OutputRows:
    from ottla.model.errors import AdminErrors

    errors: Mapping[str, Exception] = {}
    try:
        made = admin.create_topics(_wanted(options), validate_only=options.dry_run)
    except AdminErrors as failed:
        errors, made = failed.errors, dict(failed.results)
    rows: list[tuple[Cell, ...]] = []
    for name in options.names:
        topic = made.get(name)
        counts = (topic.partitions, topic.replication_factor) if topic is not None else (None, None)
        rows.append((name, *counts, _error_text(errors.get(name))))
    return OutputRows(("topic", "partitions", "replicas", "error"), rows)


def _wanted(options: argparse.Namespace) -> list[NewTopic]:
    from ottla.admin import NewTopic

    configs = named_values("--topic-config", options.topic_config)
    return [
        NewTopic(name, partitions=options.partitions, replication_factor=options.replicas, configs=configs)
        for name in options.names
    ]


def _deleted(admin: Admin, options: argparse.Namespace) -> OutputRows:
    from ottla.model.errors import AdminErrors

    errors: Mapping[str, Exception] = {}
    try:
        if options.dry_run:
            admin.describe_topics(options.names)
        else:
            admin.delete_topics(options.names)
    except AdminErrors as failed:
        errors = failed.errors
    return OutputRows(("topic", "error"), [(name, _error_text(errors.get(name))) for name in options.names])


def _error_text(error: Exception | None) -> str | None:
    return None if error is None else str(error)


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))

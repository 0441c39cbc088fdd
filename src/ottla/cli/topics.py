"""`ottla topics`: list, describe, create, delete."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.connection_options import properties_of
from ottla.cli.output import Cell, Parser, Rows, new_parser, run_command

if TYPE_CHECKING:
    from ottla.admin import Admin, NewTopic, TopicDescription


def parser() -> Parser:
    """`topics` and its options."""
    parser = new_parser("topics", "List, describe, create and delete topics.")
    actions = ["list", "describe", "create", "delete"]
    parser.add_argument("action", nargs="?", default="list", choices=actions, help="list if nothing is said")
    parser.add_argument("names", nargs="*", metavar="TOPIC")
    parser.add_argument("-p", "--partitions", type=int, help="of a new topic (the broker's default)")
    parser.add_argument("-r", "--replicas", type=int, help="of a new topic (the broker's default)")
    parser.add_argument(
        "--topic-config", action="append", default=[], metavar="NAME=VALUE", help="of a new topic"
    )
    parser.add_argument("--internal", action="store_true", help="list Kafka's own topics too")
    parser.add_argument("--dry-run", action="store_true", help="change nothing")
    return parser


def run(arguments: Sequence[str]) -> int:
    """One action."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> Rows:
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


def _listed(topics: Mapping[str, TopicDescription]) -> Rows:
    rows: list[tuple[Cell, ...]] = [
        (name, len(one.partitions), one.replication_factor, one.is_internal) for name, one in topics.items()
    ]
    return Rows(("topic", "partitions", "replicas", "internal"), rows)


def _described(topics: Mapping[str, TopicDescription]) -> Rows:
    rows: list[tuple[Cell, ...]] = [
        (name, one.partition, one.leader, _joined(one.replicas), _joined(one.isr))
        for name, topic in topics.items()
        for one in topic.partitions
    ]
    return Rows(("topic", "partition", "leader", "replicas", "isr"), rows)


def _created(admin: Admin, options: argparse.Namespace) -> Rows:
    from ottla.admin import AdminErrors

    errors: Mapping[str, Exception] = {}
    try:
        made = admin.create_topics(_wanted(options), validate_only=options.dry_run)
    except AdminErrors as failed:
        errors, made = failed.errors, dict(failed.results)
    rows: list[tuple[Cell, ...]] = []
    for name in options.names:
        found = made.get(name)
        counts = (found.partitions, found.replication_factor) if found is not None else (None, None)
        rows.append((name, *counts, _told(errors.get(name))))
    return Rows(("topic", "partitions", "replicas", "error"), rows)


def _wanted(options: argparse.Namespace) -> list[NewTopic]:
    from ottla.admin import NewTopic
    from ottla.cli.kafka.settings import pairs

    configs = pairs(options.topic_config)
    return [
        NewTopic(name, partitions=options.partitions, replication_factor=options.replicas, configs=configs)
        for name in options.names
    ]


def _deleted(admin: Admin, options: argparse.Namespace) -> Rows:
    from ottla.admin import AdminErrors

    errors: Mapping[str, Exception] = {}
    try:
        if options.dry_run:
            admin.describe_topics(options.names)
        else:
            admin.delete_topics(options.names)
    except AdminErrors as failed:
        errors = failed.errors
    return Rows(("topic", "error"), [(name, _told(errors.get(name))) for name in options.names])


def _told(error: Exception | None) -> str | None:
    return None if error is None else str(error)


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))

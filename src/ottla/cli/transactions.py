"""`ottla transactions`: list, describe and terminate; find those that hang, and abort them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.connection_options import properties_of
from ottla.cli.output import Cell, OutputRows, Parser, new_parser, run_command

if TYPE_CHECKING:
    from ottla.admin import Admin

HANGING_S = 900.0
"""Kafka's default of transaction.max.timeout.ms: a transaction without progress for longer is hanging."""


def parser() -> Parser:
    """`transactions` and its options."""
    parser = new_parser(
        "transactions", "List, describe and terminate transactions; find and abort those that hang."
    )
    actions = ["list", "describe", "terminate", "find-hanging", "abort"]
    parser.add_argument("action", nargs="?", default="list", choices=actions, help="list by default")
    parser.add_argument("names", nargs="*", metavar="NAME", help="transactional ids, or topics")
    parser.add_argument("--state", action="append", default=[], help="list those in this state: Ongoing, …")
    parser.add_argument("--older-than", type=float, metavar="SECONDS", help="open, or silent, for longer")
    parser.add_argument("--partition", type=int, help="of the topic, to abort")
    parser.add_argument("--start-offset", type=int, help="of the transaction, to abort")
    parser.add_argument("--dry-run", action="store_true", help="change nothing")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the action."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> OutputRows:
    from ottla.admin import Admin

    if options.action in ("describe", "terminate") and not options.names:
        parser().error(f"which ones? ottla transactions {options.action} TRANSACTIONAL-ID …")
    if options.action == "abort" and (
        len(options.names) != 1 or options.partition is None or options.start_offset is None
    ):
        parser().error("which one? ottla transactions abort TOPIC --partition N --start-offset N")
    with Admin(properties_of(options)) as admin:
        if options.action == "list":
            return _listed(admin, options)
        if options.action == "describe":
            return _described(admin, options.names)
        if options.action == "terminate":
            return _terminated(admin, options)
        if options.action == "find-hanging":
            return _hanging(admin, options)
        return _aborted(admin, options)


def _listed(admin: Admin, options: argparse.Namespace) -> OutputRows:
    transactions = admin.list_transactions(states=options.state, longer_than=options.older_than)
    rows: list[tuple[Cell, ...]] = [
        (transaction.transactional_id, transaction.state, transaction.producer_id, transaction.coordinator_id)
        for transaction in transactions
        if not options.names or transaction.transactional_id in options.names
    ]
    return OutputRows(("transactional_id", "state", "producer_id", "coordinator"), rows)


def _described(admin: Admin, names: list[str]) -> OutputRows:
    """A row for each partition; a transaction without any has one row without a partition."""
    rows: list[tuple[Cell, ...]] = []
    for name, transaction in admin.describe_transactions(names).items():
        head = (
            name,
            transaction.state,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.timeout_ms,
            transaction.started_ms,
        )
        rows += [
            (*head, topic_partition.topic, topic_partition.partition)
            for topic_partition in transaction.partitions
        ] or [(*head, None, None)]
    columns = ("transactional_id", "state", "producer_id", "epoch", "timeout_ms", "started_ms")
    return OutputRows((*columns, "topic", "partition"), rows)


def _terminated(admin: Admin, options: argparse.Namespace) -> OutputRows:
    """A row for each id, with the state that it was in."""
    transactions = admin.describe_transactions(options.names)
    for name in () if options.dry_run else transactions:
        admin.terminate_transaction(name)
    return OutputRows(
        ("transactional_id", "state"),
        [(name, transaction.state) for name, transaction in transactions.items()],
    )


def _hanging(admin: Admin, options: argparse.Namespace) -> OutputRows:
    older_than = HANGING_S if options.older_than is None else options.older_than
    hanging = admin.find_hanging_transactions(options.names or admin.list_topics(), longer_than=older_than)
    rows: list[tuple[Cell, ...]] = [
        (
            *transaction.topic_partition,
            transaction.producer.start_offset,
            transaction.producer.producer_id,
            transaction.producer.producer_epoch,
            transaction.producer.last_timestamp_ms,
        )
        for transaction in hanging
    ]
    columns = ("topic", "partition", "start_offset", "producer_id", "epoch", "last_timestamp_ms")
    return OutputRows(columns, rows)


def _aborted(admin: Admin, options: argparse.Namespace) -> OutputRows:
    from ottla.model.topic_partition import TopicAndPartition

    topic_partition = TopicAndPartition(options.names[0], options.partition)
    if options.dry_run:
        starts = [producer.start_offset for producer in admin.describe_producers(topic_partition)]
        error = None if options.start_offset in starts else "no open transaction begins there"
    else:
        admin.abort_transaction(topic_partition, options.start_offset)
        error = None
    return OutputRows(
        ("topic", "partition", "start_offset", "error"), [(*topic_partition, options.start_offset, error)]
    )

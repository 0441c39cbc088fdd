"""`ottla offsets`: move a group's positions from one store to another, or to a file and back.

Without --execute nothing is written: the plan is printed, with what would be refused.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.connection_options import properties_of
from ottla.cli.output import ADD_EXECUTE, Cell, OutputRows, Parser, new_parser, run_command
from ottla.model.errors import ConfigError

if TYPE_CHECKING:
    from ottla.cli.offset_stores import OffsetStores
    from ottla.model.topic_partition import TopicAndPartition
    from ottla.offsets import MigrationPlan, OffsetAndMetadata

    Positions = dict[TopicAndPartition, OffsetAndMetadata]

KAFKA = "kafka"
STORES = (KAFKA, "zookeeper", "ledger")
TABLE = "ottla_offsets"
STANDARD = "-"
COLUMNS = ("group", "topic", "partition", "source", "target", "step", "done", "error")


def parser() -> Parser:
    """`offsets` with its three actions, and their options."""
    about = "Move positions of groups between stores, or to a file and back. What is written is read back."
    parser = Parser(prog="ottla offsets", description=about)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, help: str) -> argparse.ArgumentParser:
        shared = new_parser(f"offsets {name}", about)  # whose --help is the action's
        return actions.add_parser(name, parents=[shared], add_help=False, help=help, description=help)

    migrate = action("migrate", "from one store to another")
    _add_choice(migrate, needs_group=True)
    migrate.add_argument("--from", dest="source", choices=STORES, required=True, help="what to read")
    migrate.add_argument("--to", dest="target", choices=STORES, required=True, help="what to write")
    _add_writing(migrate)
    export = action("export", "to a file, as lines of Kafka's ExportZkOffsets")
    export.add_argument("file", metavar="FILE", help="- is the standard output")
    _add_choice(export, needs_group=True)
    export.add_argument(
        "--from", dest="source", choices=STORES, default=KAFKA, help=f"what to read ({KAFKA})"
    )
    load = action("import", "from a file with lines of Kafka's ExportZkOffsets")
    load.add_argument("file", metavar="FILE", help="- is the standard input")
    _add_choice(load, needs_group=False)
    load.add_argument("--to", dest="target", choices=STORES, default=KAFKA, help=f"what to write ({KAFKA})")
    _add_writing(load)
    return parser


def _add_choice(parser: argparse.ArgumentParser, *, needs_group: bool) -> None:
    """Add the options that choose groups and topics."""
    again = "may come again" if needs_group else "only this; may come again"
    parser.add_argument(
        "-g", "--group", action="append", required=needs_group, metavar="GROUP", help=again, default=None
    )
    topic = "only this, or topic:0,1,2; may come again"
    parser.add_argument("--topic", action="append", default=[], metavar="TOPIC", help=topic)
    parser.add_argument("--ledger", metavar="FILE", help="the SQLite database of an OffsetLedger")
    parser.add_argument("--ledger-table", default=TABLE, metavar="NAME", help=f"its table ({TABLE})")


def _add_writing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--execute", action="store_true", help="do it")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, as without --execute")
    force = "in spite of live members, and of a target that is ahead"
    parser.add_argument("--force", action="store_true", help=force)


def run(arguments: Sequence[str]) -> int:
    """Run the action."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> OutputRows | None:
    if options.action == "migrate" and options.source == options.target:
        parser().error(f"--from and --to are both {options.target}")
    from ottla.cli.offset_stores import OffsetStores

    actions: dict[str, Callable[[argparse.Namespace, OffsetStores], OutputRows | None]] = {
        "migrate": _migrate,
        "export": _export,
        "import": _import,
    }
    try:
        with ExitStack() as stack:
            stores = OffsetStores(properties_of(options), options.ledger, options.ledger_table, stack)
            return actions[options.action](options, stores)
    except sqlite3.Error as error:
        raise ConfigError(f"--ledger {options.ledger}: {error}") from error


def _migrate(options: argparse.Namespace, stores: OffsetStores) -> OutputRows:
    positions = _read(options, stores, options.source)
    return _moved(options, stores, options.target, positions)


def _export(options: argparse.Namespace, stores: OffsetStores) -> OutputRows | None:
    from ottla.offsets import exported

    by_group = _read(options, stores, options.source)
    text = "".join(exported(group, positions) for group, positions in by_group.items())
    if options.file == STANDARD:
        sys.stdout.write(text)
        return None
    try:
        Path(options.file).write_text(text)
    except OSError as error:
        raise ConfigError(f"{options.file} cannot be written: {error.strerror or error}") from error
    rows: list[tuple[Cell, ...]] = [(group, len(positions)) for group, positions in by_group.items()]
    return OutputRows(("group", "partitions"), rows)


def _import(options: argparse.Namespace, stores: OffsetStores) -> OutputRows:
    from ottla.offsets import imported

    try:
        text = sys.stdin.read() if options.file == STANDARD else Path(options.file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{options.file} cannot be read: {error}") from error
    by_group = imported(text)
    wanted = {group: by_group.get(group, {}) for group in options.group or by_group}
    chosen = {group: _chosen(options.topic, positions) for group, positions in wanted.items()}
    return _moved(options, stores, options.target, _known(chosen, options.file))


def _read(options: argparse.Namespace, stores: OffsetStores, name: str) -> Mapping[str, Positions]:
    store = stores.named(name)
    return _known(
        {group: _chosen(options.topic, store.fetch_all(group)) for group in dict.fromkeys(options.group)},
        name,
    )


def _known(by_group: Mapping[str, Positions], where: str) -> Mapping[str, Positions]:
    """Return `by_group`. Raises ConfigError if a group has no positions: its name may be misspelled."""
    for group, positions in by_group.items():
        if not positions:
            raise ConfigError(f"group {group!r} has no such offsets in {where}")
    return by_group


def _chosen(topics: Collection[str], positions: Positions) -> Positions:
    """The positions of `topic` or `topic:0,1,2`; all positions if no topic is named."""
    wanted: dict[str, set[str]] = {}
    for text in topics:
        topic, _, numbers = text.partition(":")
        wanted.setdefault(topic, set()).update(numbers.split(","))
    return {
        topic_partition: position
        for topic_partition, position in positions.items()
        if not wanted or wanted.get(topic_partition.topic, set()) & {"", str(topic_partition.partition)}
    }


def _moved(
    options: argparse.Namespace, stores: OffsetStores, name: str, by_group: Mapping[str, Positions]
) -> OutputRows:
    """Plan for all groups; write with --execute, unless something is refused for any of them."""
    from ottla.offsets import carry_out, plan_migration

    is_done = options.execute and not options.dry_run
    target = stores.named(name, is_made=is_done)
    known = stores.partitions()
    plans = [
        plan_migration(
            group,
            positions,
            target.fetch_all(group),
            live=stores.live_members(group),
            known=known,
            force=options.force,
        )
        for group, positions in by_group.items()
    ]
    is_done = is_done and not any(plan.refusals for plan in plans)
    rows: list[tuple[Cell, ...]] = []
    for plan in plans:
        failures = carry_out(plan, target) if is_done else {}
        rows += _rows(plan, failures, is_done=is_done)
    is_plan = not options.execute or options.dry_run
    return OutputRows(COLUMNS, rows, note=ADD_EXECUTE if is_plan else "")


def _rows(
    plan: MigrationPlan, failures: Mapping[TopicAndPartition, str], *, is_done: bool
) -> list[tuple[Cell, ...]]:
    return [
        (
            plan.group,
            *move.topic_partition,
            move.source.offset,
            move.target.offset if move.target is not None else None,
            move.step.value,
            is_done and move.topic_partition in plan.writes and move.topic_partition not in failures,
            failures.get(move.topic_partition, move.reason) or None,
        )
        for move in plan.moves
    ]

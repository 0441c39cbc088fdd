"""`ottla offsets`: move a group's positions from one store to another, or to a file and back.

Without --execute nothing is written: the plan is told, and what would be refused.
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
from ottla.cli.output import Cell, Parser, Rows, new_parser, run_command
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
    """What of all that a store or a file has."""
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
    """One action."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> Rows | None:
    if options.action == "migrate" and options.source == options.target:
        parser().error(f"--from and --to are both {options.target}")
    from ottla.cli.offset_stores import OffsetStores

    actions: dict[str, Callable[[argparse.Namespace, OffsetStores], Rows | None]] = {
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


def _migrate(options: argparse.Namespace, stores: OffsetStores) -> Rows:
    found = _read(options, stores, options.source)
    return _moved(options, stores, options.target, found)


def _export(options: argparse.Namespace, stores: OffsetStores) -> Rows | None:
    from ottla.offsets import exported

    found = _read(options, stores, options.source)
    text = "".join(exported(group, positions) for group, positions in found.items())
    if options.file == STANDARD:
        sys.stdout.write(text)
        return None
    try:
        Path(options.file).write_text(text)
    except OSError as error:
        raise ConfigError(f"{options.file} cannot be written: {error.strerror or error}") from error
    rows: list[tuple[Cell, ...]] = [(group, len(positions)) for group, positions in found.items()]
    return Rows(("group", "partitions"), rows)


def _import(options: argparse.Namespace, stores: OffsetStores) -> Rows:
    from ottla.offsets import imported

    try:
        text = sys.stdin.read() if options.file == STANDARD else Path(options.file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{options.file} cannot be read: {error}") from error
    found = imported(text)
    wanted = {group: found.get(group, {}) for group in options.group or found}
    chosen = {group: _chosen(options.topic, positions) for group, positions in wanted.items()}
    return _moved(options, stores, options.target, _known(chosen, options.file))


def _read(options: argparse.Namespace, stores: OffsetStores, name: str) -> Mapping[str, Positions]:
    store = stores.named(name)
    return _known(
        {group: _chosen(options.topic, store.fetch_all(group)) for group in dict.fromkeys(options.group)},
        name,
    )


def _known(found: Mapping[str, Positions], where: str) -> Mapping[str, Positions]:
    """All of it, if every group has something: a name that is misspelled would else pass for done."""
    for group, positions in found.items():
        if not positions:
            raise ConfigError(f"group {group!r} has no offsets in {where} that were asked for")
    return found


def _chosen(topics: Collection[str], positions: Positions) -> Positions:
    """Those of `topic` and of `topic:0,1,2`; all if nothing is named."""
    wanted: dict[str, set[str]] = {}
    for text in topics:
        topic, _, numbers = text.partition(":")
        wanted.setdefault(topic, set()).update(numbers.split(","))
    return {
        place: one
        for place, one in positions.items()
        if not wanted or wanted.get(place.topic, set()) & {"", str(place.partition)}
    }


def _moved(
    options: argparse.Namespace, stores: OffsetStores, name: str, found: Mapping[str, Positions]
) -> Rows:
    """Plan for all groups, then write if nothing is refused in any of them."""
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
        for group, positions in found.items()
    ]
    is_done = is_done and not any(plan.refusals for plan in plans)
    rows: list[tuple[Cell, ...]] = []
    for plan in plans:
        failures = carry_out(plan, target) if is_done else {}
        rows += _rows(plan, failures, is_done=is_done)
    return Rows(COLUMNS, rows)


def _rows(
    plan: MigrationPlan, failures: Mapping[TopicAndPartition, str], *, is_done: bool
) -> list[tuple[Cell, ...]]:
    return [
        (
            plan.group,
            *one.place,
            one.source.offset,
            one.target.offset if one.target is not None else None,
            one.step.value,
            is_done and one.place in plan.writes and one.place not in failures,
            failures.get(one.place, one.reason) or None,
        )
        for one in plan.moves
    ]

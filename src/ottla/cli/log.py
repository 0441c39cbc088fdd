"""`ottla log check` and `ottla log repair`: the files of a data directory, on the disk of a stopped broker.

Exit codes: 0 nothing is damaged, or all of it was repaired; 1 something is damaged, was not repaired, or
could not be looked at; 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.output import FAILED, TABLE, OutputRows, Parser, new_parser, print_line, run_command

if TYPE_CHECKING:
    from ottla.broker.storage.data_check import Repaired

COLUMNS = ("file", "kind", "damage", "lost_offsets", "cut_bytes", "remedy", "copies", "done", "error")


def parser() -> Parser:
    """`log` and its options."""
    parser = new_parser("log", "Check and repair the data directory of a broker that is stopped.")
    parser.add_argument("action", choices=["check", "repair"], help="repair prints a plan without --execute")
    parser.add_argument("directory", metavar="DIR", help="the data directory")
    parser.add_argument("--execute", action="store_true", help="do it")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, as without --execute")
    parser.add_argument(
        "--copy-to", metavar="DIR", help="where copies of what is cut go (default: DIR.repair/1, 2, …)"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Check or repair a directory."""
    damage = DamageRows(COLUMNS)
    code = run_command(parser(), arguments, lambda options: _act(options, damage))
    return code or (0 if damage.is_ok else FAILED)


@dataclass
class DamageRows(OutputRows):
    """Rows of findings. The command succeeds only if each finding is repaired."""

    @property
    def is_ok(self) -> bool:
        """Whether nothing damaged is left."""
        done = self.columns.index("done")
        return all(row[done] for row in self.rows)


def _act(options: argparse.Namespace, rows: DamageRows) -> OutputRows | None:
    from ottla.broker.storage.data_check import Repaired, check, repair
    from ottla.log.repair import fresh_copies

    root = Path(options.directory).absolute()
    is_done = options.action == "repair" and options.execute and not options.dry_run
    if is_done:
        copies = Path(options.copy_to).absolute() if options.copy_to else fresh_copies(root)
        checked, results = repair(root, copies)
    else:
        checked = check(root)
        results = [Repaired(finding) for finding in checked.findings]
    for item in results:
        names = ", ".join(map(str, item.copies)) or None
        finding, done = item.finding, is_done and item.error is None
        name, numbers = str(finding.path.relative_to(root)), (finding.offsets_lost, finding.bytes_cut)
        rows.rows.append(
            (name, finding.kind, finding.damage, *numbers, finding.remedy, names, done, item.error)
        )
    if options.format != TABLE:
        return rows
    _print(rows, is_done=is_done)
    what = f"{checked.partitions} partitions, {checked.size:,} bytes"
    print_line(f"{what}: {_summary(results, is_done=is_done, is_check=options.action == 'check')}")
    return None


def _summary(results: Sequence[Repaired], *, is_done: bool, is_check: bool) -> str:
    if not results:
        return "nothing is damaged"
    if not is_done:
        return f"{len(results)} damaged" + ("" if is_check else "; nothing was changed: add --execute")
    failed = sum(item.error is not None for item in results)
    return f"{len(results) - failed} repaired" + (f", {failed} not" if failed else "")


def _print(rows: DamageRows, *, is_done: bool) -> None:
    """Print a paragraph for each finding: their sentences are too long for a table."""
    for row in rows.records():
        print_line(f"{row['file']}: {row['damage']}")
        print_line(f"    {'' if is_done else 'repair: '}{row['error'] or row['remedy']}")
        if row["copies"]:
            print_line(f"    copied to {row['copies']}")

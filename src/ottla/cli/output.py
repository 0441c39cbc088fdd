"""What commands for people print: a table, or JSON or tab-separated values for programs.

The table is for people and may change. JSON and TSV are a contract: a command prints one JSON object, also
when it fails, and TSV has a line of names before its rows. Exit codes: 0 all is well, 1 something failed,
2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

from ottla.cli.connection_options import add_connection_options
from ottla.cli.kafka.flags import WrongFlags
from ottla.model.errors import ConfigError, OttlaError

TABLE, JSON, TSV = "table", "json", "tsv"
FORMATS = (TABLE, JSON, TSV)
FAILED, MISUSED = 1, 2
Cell = str | int | float | bool | None
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


@dataclass
class Rows:
    """An answer. Where single rows can fail, their last column is `error`, and None where all is well."""

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]] = field(default_factory=list)

    @property
    def is_ok(self) -> bool:
        """Whether no row has failed."""
        return self.columns[-1] != "error" or all(row[-1] is None for row in self.rows)

    def records(self) -> list[dict[str, Cell]]:
        """Rows by the names of their columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class Parser(argparse.ArgumentParser):
    """Tells what is wrong as JSON too, if that is asked for."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        if _asks_for_json(sys.argv) or _asks_for_json(_arguments):
            print_json({"ok": False, "error": {"kind": "usage", "message": message}, "rows": []})
            raise SystemExit(MISUSED)
        super().error(message)


_arguments: list[str] = []
"""Of the command that runs, for what is wrong with them."""


def _asks_for_json(words: Sequence[str]) -> bool:
    return "--format=json" in words or ("--format", JSON) in pairwise(words)


def new_parser(name: str, about: str, *, more_formats: Sequence[str] = ()) -> Parser:
    """A parser with the options that every command has. What has more formats prints those by itself."""
    parser = Parser(prog=f"ottla {name}", description=about)
    parser.add_argument(
        "--format", choices=(*FORMATS, *more_formats), default=TABLE, help="for people, or for programs"
    )
    add_connection_options(parser)
    return parser


def run_command(
    parser: Parser, arguments: Sequence[str], act: Callable[[argparse.Namespace], Rows | None]
) -> int:
    """Parse, do, print; the exit code. An `act` that returns None has printed by itself."""
    _arguments[:] = arguments
    options = parser.parse_args(arguments)
    with reported(options.format) as outcome:
        found = act(options)
        if found is not None:
            print_rows(found, options.format)
            outcome.code = 0 if found.is_ok else FAILED
    return outcome.code


@dataclass
class Outcome:
    """How a command ended."""

    code: int = 0


@contextmanager
def reported(form: str) -> Iterator[Outcome]:
    """With JSON, an error of ours is an object on standard output; else it goes on, to be told as a line."""
    outcome = Outcome()
    try:
        yield outcome
    except (OttlaError, WrongFlags) as error:
        if form != JSON:
            raise ConfigError(str(error)) if isinstance(error, WrongFlags) else error from None
        told = {"kind": type(error).__name__, "message": str(error)}
        print_json({"ok": False, "error": told, "rows": []})
        outcome.code = FAILED


def print_rows(found: Rows, form: str) -> None:
    """The whole answer."""
    if form == JSON:
        print_json({"ok": found.is_ok, "rows": found.records()})
    elif form == TSV:
        for row in (found.columns, *found.rows):
            print_line("\t".join(tsv_cell(cell) for cell in row))
    else:
        print_table(found)


def print_line(text: str) -> None:
    """A line, at once: whoever reads may wait for it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_json(value: object) -> None:
    """One object on one line."""
    print_line(json.dumps(value, ensure_ascii=False))


def tsv_cell(cell: Cell) -> str:
    """Nothing for None; what would end a cell or a line is escaped."""
    return "" if cell is None else _text(cell).translate(_ESCAPES)


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "-" if cell is None else str(cell)


def print_table(found: Rows) -> None:
    """Columns side by side, numbers at the right."""
    texts = [[_text(cell) for cell in row] for row in found.rows]
    titles = [name.upper().replace("_", "-") for name in found.columns]
    widths = [max(map(len, column)) for column in zip(titles, *texts, strict=True)]
    is_number = [
        any(isinstance(cell, int | float) for cell in column) for column in zip(*found.rows, strict=True)
    ] or [False] * len(titles)

    def line(cells: Sequence[str]) -> str:
        sides = zip(cells, widths, is_number, strict=True)
        return "  ".join(
            cell.rjust(width) if right else cell.ljust(width) for cell, width, right in sides
        ).rstrip()

    print_line(_bold(line(titles)))
    for row in texts:
        print_line(line(row))


def _bold(text: str) -> str:
    is_plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if is_plain else f"\033[1m{text}\033[0m"

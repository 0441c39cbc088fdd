"""The output of commands: a table for people; JSON or tab-separated values for programs.

The table is for people and may change. JSON and TSV are a contract: a command prints one JSON object, also
when it fails, and TSV begins with a line of column names. Exit codes: 0 all is well, 1 something failed,
2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

from ottla.cli.connection_options import add_connection_options
from ottla.model.did_you_mean import hint
from ottla.model.errors import ConfigError, OttlaError

TABLE, JSON, TSV = "table", "json", "tsv"
FORMATS = (TABLE, JSON, TSV)
FAILED, MISUSED = 1, 2
ADD_EXECUTE = "nothing done yet: add --execute"
Cell = str | int | float | bool | None
_UNRECOGNIZED = "unrecognized arguments: "
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


@dataclass
class OutputRows:
    """The result of a command.

    Where single rows can fail, the last column is `error`; None means no error. `note` is for people: it is
    printed after a table, on standard error.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]] = field(default_factory=list)
    note: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether no row has an error."""
        return self.columns[-1] != "error" or all(row[-1] is None for row in self.rows)

    def records(self) -> list[dict[str, Cell]]:
        """Rows by the names of their columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class Parser(argparse.ArgumentParser):
    """A parser that names the nearest option, and reports errors as JSON with --format json."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with 2."""
        if message.startswith(_UNRECOGNIZED):
            option = message.removeprefix(_UNRECOGNIZED).partition(" ")[0].partition("=")[0]
            message += hint(option, [name for name in self._option_string_actions if name.startswith("--")])
        if _asks_for_json(sys.argv) or _asks_for_json(_arguments):
            print_json({"ok": False, "error": {"kind": "usage", "message": message}, "rows": []})
            raise SystemExit(MISUSED)
        super().error(message)


_arguments: list[str] = []
"""The arguments of the command that runs, for error messages about them."""


def _asks_for_json(words: Sequence[str]) -> bool:
    return "--format=json" in words or ("--format", JSON) in pairwise(words)


def log_to_stderr(*, verbose: bool) -> None:
    """Write warnings, or with `verbose` also informational messages, to standard error."""
    level = logging.INFO if verbose else logging.WARNING
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=level, stream=sys.stderr, format=form)


def new_parser(name: str, about: str, *, more_formats: Sequence[str] = ()) -> Parser:
    """A parser with the options that every command has. A command with `more_formats` prints those itself."""
    parser = Parser(prog=f"ottla {name}", description=about)
    parser.add_argument(
        "--format",
        choices=(*FORMATS, *more_formats),
        default=TABLE,
        help="table for people; json and tsv for programs",
    )
    add_connection_options(parser)
    return parser


def run_command(
    parser: Parser, arguments: Sequence[str], act: Callable[[argparse.Namespace], OutputRows | None]
) -> int:
    """Parse the arguments, run `act`, print its rows, return the exit code.

    None means `act` has printed itself.
    """
    _arguments[:] = arguments
    options = parser.parse_args(arguments)
    with reported(options.format) as outcome:
        rows = act(options)
        if rows is not None:
            print_rows(rows, options.format)
            outcome.code = 0 if rows.is_ok else FAILED
    return outcome.code


@dataclass
class CommandOutcome:
    """The exit code of a command."""

    code: int = 0


@contextmanager
def reported(form: str) -> Iterator[CommandOutcome]:
    """Print an expected error as an object on standard output if `form` is JSON; else let it propagate."""
    from ottla.cli.kafka.flags import WrongFlags  # here: a broker's start does not need it

    outcome = CommandOutcome()
    try:
        yield outcome
    except (OttlaError, OSError, WrongFlags) as error:
        if form != JSON or isinstance(error, BrokenPipeError):
            raise ConfigError(str(error)) if isinstance(error, WrongFlags) else error from None
        description = {"kind": type(error).__name__, "message": str(error)}
        print_json({"ok": False, "error": description, "rows": []})
        outcome.code = FAILED


def print_rows(rows: OutputRows, form: str) -> None:
    """Print all rows in the format."""
    if form == JSON:
        print_json({"ok": rows.is_ok, "rows": rows.records()})
    elif form == TSV:
        for row in (rows.columns, *rows.rows):
            print_line("\t".join(tsv_cell(cell) for cell in row))
    else:
        print_table(rows)
        if rows.note:
            sys.stderr.write(f"{rows.note}\n")


def print_line(text: str) -> None:
    """Print a line and flush it: a reader may be waiting."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_json(value: object) -> None:
    """Print an object on one line."""
    print_line(json.dumps(value, ensure_ascii=False))


def tsv_cell(cell: Cell) -> str:
    """A cell as text: empty for None; tabs and line ends are escaped."""
    return "" if cell is None else _text(cell).translate(_ESCAPES)


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "-" if cell is None else str(cell)


def print_table(rows: OutputRows) -> None:
    """Print aligned columns; numbers to the right."""
    titles, *lines = table_lines(rows)
    print_line(bold(titles))
    for line in lines:
        print_line(line)


def table_lines(rows: OutputRows) -> list[str]:
    """Return the lines of a table; the first has the titles."""
    texts = [[_text(cell) or "-" for cell in row] for row in rows.rows]
    titles = [name.upper().replace("_", "-") for name in rows.columns]
    widths = [max(map(len, column)) for column in zip(titles, *texts, strict=True)]
    is_number = [
        any(isinstance(cell, int | float) for cell in column) for column in zip(*rows.rows, strict=True)
    ] or [False] * len(titles)

    def line(cells: Sequence[str]) -> str:
        sides = zip(cells, widths, is_number, strict=True)
        return "  ".join(
            cell.rjust(width) if right else cell.ljust(width) for cell, width, right in sides
        ).rstrip()

    return [line(titles), *map(line, texts)]


def bold(text: str) -> str:
    """Return the text in bold on a terminal, unless NO_COLOR is set."""
    is_plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if is_plain else f"\033[1m{text}\033[0m"

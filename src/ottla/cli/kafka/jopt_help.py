"""Help in the layout of joptsimple, the library of Kafka's tools: two columns, padded with blanks.

--num.streams <Integer: Number of       Number of consumption streams.
  threads>                                (default: 1)
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from itertools import zip_longest
from typing import NamedTuple

_WIDTH = 39  # two of them and a blank between are a line
_INDENT = "  "


class Row(NamedTuple):
    """A flag in the help: its value's name, if it takes one, its description and its default."""

    name: str
    value: str
    doc: str
    default: str = ""


def help_text(rows: Iterable[Row]) -> str:
    """The help text with all flags, by name."""
    lines = [_line("Option", "Description"), _line("------", "-----------")]
    for row in sorted(rows):
        flag = f"--{row.name} <{row.value}>" if row.value else f"--{row.name}"
        doc = f"{row.doc} (default: {row.default})" if row.default else row.doc
        lines += [_line(left, right) for left, right in zip_longest(_lines(flag), _lines(doc), fillvalue="")]
    return "\n".join(lines)


def _lines(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH - 1, subsequent_indent=_INDENT, break_on_hyphens=False)


def _line(left: str, right: str) -> str:
    return f"{left:{_WIDTH}} {right:{_WIDTH}}"

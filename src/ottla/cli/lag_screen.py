"""The screen of `ottla lag --watch`: a line with the clock, totals and rates, and as many rows as fit. Pure.

12:04:31  2 groups, 16 partitions  lag 48,210  -1,920/s  read 5,120/s  written 3,200/s
GROUP    KIND   TOPIC   PARTITION  COMMITTED      END    LAG  SECONDS  STORE  USED  MEMBER  ERROR
…
… and 9 more rows with less lag
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.output import OutputRows, table_lines

if TYPE_CHECKING:
    from ottla.admin import GroupLag

_LAG, _ERROR = "lag", "error"


class LagTotals(NamedTuple):
    """Sums over all partitions at one time; partitions whose offsets are not known are left out."""

    at_s: float
    groups: int
    partitions: int
    lag: int
    committed: int
    ends: int


def totals(lags: Mapping[str, GroupLag], at_s: float) -> LagTotals:
    """Sum up the lag of groups. A partition counts once for each group that reads it."""
    partitions = [partition for lag in lags.values() for partition in lag.partitions]
    known = [partition for partition in partitions if partition.lag is not None]
    return LagTotals(
        at_s,
        len(lags),
        len(partitions),
        sum(partition.lag or 0 for partition in known),
        sum(partition.committed or 0 for partition in known),
        sum(partition.end or 0 for partition in known),
    )


def screen(
    rows: OutputRows, now: LagTotals, before: LagTotals | None, clock: str, size: os.terminal_size
) -> list[str]:
    """Return the lines of the screen: none wider than the terminal, and fewer than it has rows.

    If not all rows fit, those with an error come first, then those with the largest lag.
    """
    room = max(1, size.lines - 3)  # without the totals, the titles, and the line of the cursor
    shown, rest = rows.rows, 0
    if len(shown) > room:
        lag, error = rows.columns.index(_LAG), rows.columns.index(_ERROR)
        shown = sorted(shown, key=lambda row: (row[error] is None, -int(row[lag] or 0)))[: room - 1]
        rest = len(rows.rows) - len(shown)
    lines = [_summary(now, before, clock), *table_lines(OutputRows(rows.columns, shown))]
    lines += [f"… and {rest:,} more rows with less lag"] if rest else []
    return [line[: max(1, size.columns - 1)] for line in lines]


def _summary(now: LagTotals, before: LagTotals | None, clock: str) -> str:
    counts = f"{now.groups:,} groups, {now.partitions:,} partitions"
    parts = [clock, counts, f"lag {now.lag:,}"]
    if before is not None and now.at_s > before.at_s:
        seconds = now.at_s - before.at_s
        parts.append(f"{(now.lag - before.lag) / seconds:+,.0f}/s")
        parts.append(f"read {(now.committed - before.committed) / seconds:,.0f}/s")
        parts.append(f"written {(now.ends - before.ends) / seconds:,.0f}/s")
    return "  ".join(parts)

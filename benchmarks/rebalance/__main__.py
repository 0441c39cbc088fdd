"""The tables of docs/rebalance.md: `python -m benchmarks.rebalance [--quick] [--into FILE] [part …]`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import FULL, QUICK, Effort
from benchmarks.rebalance.cases import (
    OURS,
    SCALA,
    Events,
    recovery,
    run_blocked,
    run_churn,
    run_coordinator,
    run_split,
)
from benchmarks.rebalance.churn import DEADLINE_S
from benchmarks.rebalance.group import Event


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rebalance", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"all, or some of: {', '.join(TABLES)}")
    parser.add_argument("--quick", action="store_true", help="fewer members and partitions")
    parser.add_argument("--into", type=Path, metavar="FILE", help="write the tables into this page, too")
    options = parser.parse_args(arguments)
    unknown = set(options.parts) - set(TABLES)
    if unknown:
        parser.error(f"no part is called {', '.join(sorted(unknown))}")
    for part in options.parts or TABLES:
        table = "\n".join(TABLES[part](QUICK if options.quick else FULL))
        print(table, end="\n\n", flush=True)
        if options.into:
            options.into.write_text(replaced(options.into.read_text(), part, table))
    return 0


def replaced(page: str, part: str, table: str) -> str:
    """The page with another table between the comments that name its part."""
    begin, end = f"<!-- {part} -->\n", "\n<!-- end -->"
    found, count = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}{table}{end}", page, flags=re.DOTALL
    )
    if count != 1:
        raise ValueError(f"the page has {count} places for the table {part!r}: it needs one {begin.strip()}")
    return found


def members_table(effort: Effort) -> Iterator[str]:
    """Events by contender."""
    found = run_churn(effort)
    yield from _head(
        "event", "", "all is well again after", "longest wait", "moved", "rebalances", "requests"
    )
    for event in found[OURS]:
        for name in (SCALA, OURS):
            told = found[name][event]
            yield _row(
                event if name == SCALA else "",
                name,
                _settled(told),
                _seconds(told.outcome.longest_wait_s),
                told.outcome.moved,
                f"{told.rebalances:.1f}",
                told.requests,
            )


def split_table(effort: Effort) -> Iterator[str]:  # noqa: ARG001  (it takes as long as sessions do)
    """What a former owner delivers."""
    yield from _head(
        "", "", "old owner's last", "new owner's first", "both at once", "records of the old one then"
    )
    for what, told in run_split().items():
        for name in (SCALA, OURS):
            one = told[name]
            yield _row(
                what if name == SCALA else "",
                name,
                f"{one.last_of_old_s:+.1f} s",
                f"{one.first_of_new_s:+.1f} s",
                _seconds(one.stale.seconds),
                one.stale.records,
            )


def blocked_table(effort: Effort) -> Iterator[str]:  # noqa: ARG001  (it takes as long as pauses do)
    """What is read while one partition cannot be claimed."""
    found = run_blocked()
    yield from _head("", SCALA, OURS)
    yield _row(
        "partitions that nobody reads while it is held, of 8",
        *(found[name].unread for name in (SCALA, OURS)),
    )
    yield _row("all are read again after", *(recovery(found[name]) for name in (SCALA, OURS)))


def coordinator_table(effort: Effort) -> Iterator[str]:
    """Events by kind of members."""
    found: dict[str, Events] = run_coordinator(effort)
    yield from _head("event", *found)
    for event in next(iter(found.values())):
        told = [some[event] for some in found.values()]
        cells = (f"{_settled(one)}, {_seconds(one.outcome.longest_wait_s)}" for one in told)
        yield _row(event, *cells)


TABLES = {
    "members": members_table,
    "split": split_table,
    "blocked": blocked_table,
    "coordinator": coordinator_table,
}


def _settled(event: Event) -> str:
    return _seconds(event.outcome.settled_s) if event.outcome.is_settled else f"> {DEADLINE_S:.0f} s"


def _seconds(value: float) -> str:
    return f"{value:.2f} s"


def _head(*titles: str) -> Iterator[str]:
    yield _row(*titles)
    yield "|" + "---|" * len(titles)


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    sys.exit(main())

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
    new_page, count = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}{table}{end}", page, flags=re.DOTALL
    )
    if count != 1:
        raise ValueError(f"the page has {count} places for the table {part!r}: it needs one {begin.strip()}")
    return new_page


def members_table(effort: Effort) -> Iterator[str]:
    """Events by contender."""
    events = run_churn(effort)
    yield from _head(
        "event", "", "all is well again after", "longest wait", "moved", "rebalances", "requests"
    )
    for event in events[OURS]:
        for name in (SCALA, OURS):
            result = events[name][event]
            yield _row(
                event if name == SCALA else "",
                name,
                _settled(result),
                _seconds(result.outcome.longest_wait_s),
                result.outcome.moved,
                f"{result.rebalances:.1f}",
                result.requests,
            )


def split_table(effort: Effort) -> Iterator[str]:  # noqa: ARG001  (it takes as long as sessions do)
    """What a former owner delivers."""
    yield from _head(
        "", "", "old owner's last", "new owner's first", "both at once", "records of the old one then"
    )
    for disturbance, results in run_split().items():
        for name in (SCALA, OURS):
            split = results[name]
            yield _row(
                disturbance if name == SCALA else "",
                name,
                f"{split.last_of_old_s:+.1f} s",
                f"{split.first_of_new_s:+.1f} s",
                _seconds(split.stale.seconds),
                split.stale.records,
            )


def blocked_table(effort: Effort) -> Iterator[str]:  # noqa: ARG001  (it takes as long as pauses do)
    """What is read while one partition cannot be claimed."""
    results = run_blocked()
    yield from _head("", SCALA, OURS)
    yield _row(
        "partitions that nobody reads while it is held, of 8",
        *(results[name].unread for name in (SCALA, OURS)),
    )
    yield _row("all are read again after", *(recovery(results[name]) for name in (SCALA, OURS)))


def coordinator_table(effort: Effort) -> Iterator[str]:
    """Events by kind of group, on both brokers."""
    by_broker = run_coordinator(effort)
    yield from _head("group", "event", *by_broker)
    for kind, events in by_broker[OURS].items():
        for event in events:
            results = [by_kind[kind][event] if kind in by_kind else None for by_kind in by_broker.values()]
            cells = (
                f"{_settled(result)}, {_seconds(result.outcome.longest_wait_s)}" if result else ""
                for result in results
            )
            yield _row(kind, event, *cells)


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

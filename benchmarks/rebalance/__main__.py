"""The tables of docs/rebalance.md: `python -m benchmarks.rebalance [--quick] [part …]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping

from benchmarks.harness import FULL, QUICK, Effort
from benchmarks.rebalance.cases import (
    OURS,
    SCALA,
    Events,
    Flaws,
    recovery,
    run_churn,
    run_coordinator,
    run_flaws,
)
from benchmarks.rebalance.churn import DEADLINE_S
from benchmarks.rebalance.flaws import SplitBrain
from benchmarks.rebalance.group import Event

PARTS = ("members", "flaws", "coordinator")


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rebalance", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"all, or some of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="fewer members and partitions")
    options = parser.parse_args(arguments)
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part is called {', '.join(sorted(unknown))}")
    effort = QUICK if options.quick else FULL
    for part in options.parts or PARTS:
        print("\n".join(TABLES[part](effort)), end="\n\n", flush=True)
    return 0


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


def flaws_table(effort: Effort) -> Iterator[str]:  # noqa: ARG001  (it takes as long as sessions and pauses do)
    """Two tables."""
    found = run_flaws()
    yield from _split_table(found)
    yield ""
    yield from _head("while one of 8 partitions cannot be claimed", SCALA, OURS)
    yield _row("partitions that nobody reads", *(found.blocked[name].unread for name in (SCALA, OURS)))
    yield _row("it can: all is read again after", *(recovery(found.blocked[name]) for name in (SCALA, OURS)))


def _split_table(found: Flaws) -> Iterator[str]:
    yield from _head(
        "", "", "old owner's last", "new owner's first", "both at once", "records of the old one then"
    )
    whats: Mapping[str, dict[str, SplitBrain]] = {
        "cut off from ZooKeeper": found.cut_off,
        "stopped, and goes on": found.stopped,
    }
    for what, told in whats.items():
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


def coordinator_table(effort: Effort) -> Iterator[str]:
    """Events by kind of members."""
    found: dict[str, Events] = run_coordinator(effort)
    yield from _head("event", *found)
    for event in next(iter(found.values())):
        told = [some[event] for some in found.values()]
        cells = (f"{_settled(one)}, {_seconds(one.outcome.longest_wait_s)}" for one in told)
        yield _row(event, *cells)


TABLES = {"members": members_table, "flaws": flaws_table, "coordinator": coordinator_table}


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

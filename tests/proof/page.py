"""docs/reliability.md, made from docs/reliability.jsonl, which has a line for each run of the proof."""

from __future__ import annotations

import fcntl
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.proof.failures import failures
from tests.proof.parts import PARTS, TARGETS
from tests.proof.plants import PLANTS

DOCS = Path(__file__).parents[2] / "docs"
PAGE, RUNS = DOCS / "reliability.md", DOCS / "reliability.jsonl"
SEEDS_SHOWN = 3
RUNS_SHOWN = 12
HEAD = """# Reliability

What the proof has done to ottla, and what came of it. Do not edit: `make prove` (about 20 minutes) and
`make prove HOURS=n` run all parts and write this page from their results, which are in
[reliability.jsonl](reliability.jsonl). Every round that has failed is listed with its command.

Histories are judged by one checker, `tests/proof/checker.py`. It finds what is lost, seen twice, left out or
out of order, an offset with two values, a position or a topic that went back, a partition with two owners,
aborted records, torn transactions, writers that were replaced, and tables with wrong rows.

A fuzzed input is a message, a record set or a stream of bytes with damage. Up to commit 066fc76e each record
set was decoded with and without headers; since then one way or the other, and one of eight both ways.

"""
POWER = """
## Power loss

A broker runs with four kinds of clients: plain records, commits of a group, transactions with records in two
partitions and a position, topics made and deleted. Every write, cut, flush, rename and removal of its files
is recorded, and between them what clients were told. Then the power is cut at points of that history, again
and again. What a flush covered is there. Of the rest, every sector of 512 bytes may be there or not, a file
may have grown without its bytes, and of the names in a directory the first few have changed. One cut of eight
is followed by a start, more records and a second cut. The directory is opened as a broker opens it, and
judged:

- `ottla.flush=always`: every acknowledged record, commit, transaction and topic is there.
- `ottla.flush=os`: each partition has its records up to some point, at least up to its recovery point, and
  every topic is as it was acknowledged. [The log](log.md#what-survives) promises that much.

Not covered: a disk that reports a flush that it has not done, and file systems that reorder names within a
directory. [Decision 24](decisions/0024-the-disk-is-a-model.md).
"""


def add(run: Mapping[str, Any]) -> None:
    """Add a run to the file, and write the page anew. Proofs that run at once wait for each other."""
    with RUNS.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(run) + "\n")
        file.flush()
        PAGE.write_text(page(stored_runs()))


def stored_runs() -> list[dict[str, Any]]:
    """All runs, oldest first."""
    if not RUNS.exists():
        return []
    return [json.loads(line) for line in RUNS.read_text().splitlines()]


def page(runs: Sequence[Mapping[str, Any]]) -> str:
    """The whole page."""
    return "".join(
        [HEAD, _totals(runs), _last_results(runs), _failures(runs), POWER, _planted(), _last_runs(runs)]
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _totals(runs: Sequence[Mapping[str, Any]]) -> str:
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for run in runs:
        for part in run["parts"]:
            counts.update(part["counts"])
            seconds.update(dict.fromkeys(part["counts"], part["seconds"]))

    def left(name: str, target: int) -> str:
        hours = max(0, target - counts[name]) * seconds[name] / max(1, counts[name]) / 3600
        return f"{hours:,.1f} hours" if hours else "none"

    rows = [
        (name, f"{counts[name]:,}", f"{target:,}", left(name, target)) for name, target in TARGETS.items()
    ]
    rows += [(name, f"{number:,}", "", "") for name, number in counts.items() if name not in TARGETS]
    text = (
        "Rounds that passed, over all runs. A round that failed is not counted, and is listed below. The time"
        " that is left is what it took so far, beside whatever else ran on the machine.\n\n"
    )
    return "## How much\n\n" + text + _table(["", "done", "target", "left"], rows)


def _last_results(runs: Sequence[Mapping[str, Any]]) -> str:
    """The newest result of each part with new seeds."""
    newest: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    rounds: Counter[str] = Counter()
    for run in runs:
        for part in run["parts"]:
            if not part.get("again"):
                newest[part["part"]] = run, part
                rounds[part["part"]] += part["rounds"]
    rows, figures = [], []
    for known in PARTS:
        if known.name not in newest:
            rows.append((known.name, known.does, "", "", "", "", "**not run yet**"))
            continue
        run, part = newest[known.name]
        counts = ", ".join(f"{number:,} {name}" for name, number in part["counts"].items())
        time_s = f"{part['seconds']:,.0f} s"
        seeds = ", ".join(map(str, part["seeds"][:SEEDS_SHOWN]))
        more = " …" if len(part["seeds"]) > SEEDS_SHOWN else ""
        outcome = "**FAILED**" if part["failed"] else "skipped" if part.get("skipped") else "passed"
        where = f"{outcome}, {run['commit']}"
        rows.append((known.name, known.does, str(rounds[known.name]), counts, time_s, seeds + more, where))
        if part.get("figures"):
            figures.append(f"\n{known.name} ({run['commit']}, {run['date']}):\n\n")
            figures += [f"- {line}\n" for line in part["figures"]]
    head = ["part", "what it does", "rounds passed, ever", "the last run", "time", "seeds", "outcome, commit"]
    return "\n## The last run of each part\n\n" + _table(head, rows) + "".join(figures)


def _failures(runs: Sequence[Mapping[str, Any]]) -> str:
    """Every round that ever failed."""
    found = failures(runs)
    unsettled = sum(not failure.passed for failure in found)
    text = (
        f"\n## Failures\n\n{len(found)} rounds have failed so far. {unsettled or 'None'} of them"
        f" {'has' if unsettled == 1 else 'have'} not passed since with the same seed. In virtual time a seed"
        " repeats all of a round. Real processes are killed and delayed at other instants, so that a pass"
        " proves less there. `python -m tests.proof --again` runs what has not passed.\n\n"
    )
    rows = [
        (
            f"{failure.date}, {failure.commit}",
            failure.part,
            failure.cause or "not known",
            f"passed, {failure.passed}" if failure.passed else "**not passed since**",
            f"`{failure.command}`",
        )
        for failure in reversed(found)
    ]
    return text + _table(["failed", "part", "cause", "with this seed since", "command"], rows)


def _planted() -> str:
    rows = [(plant.name, f"`{plant.file}`", f"`{plant.caught_by}`") for plant in PLANTS]
    text = (
        f"\n## Planted bugs\n\n{len(PLANTS)} bugs, put into the code one at a time. Each must make the test"
        " beside it fail: a proof that cannot fail shows nothing. `python -m tests.proof.planted_bugs` plants"
        " them all.\n\n"
    )
    return text + _table(["bug", "planted in", "caught by"], rows)


def _last_runs(runs: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            run["date"],
            run["commit"],
            run["ottla"],
            run["python"],
            f"{run['system']}, {run['processors']} processors, load {run['load_before']} before",
            run["seed"],
            f"{run['hours']:.2g}",
            len(run["parts"]),
            sum(bool(part["failed"]) for part in run["parts"]),
        )
        for run in reversed(runs[-RUNS_SHOWN:])
    ]
    head = ["begun (UTC)", "commit", "ottla", "Python", "machine", "seed", "hours", "parts", "failed"]
    text = f"\n## Runs\n\n{len(runs)} so far; the last {len(rows)}, newest first. A + stands for changes.\n\n"
    return text + _table(head, rows)


if __name__ == "__main__":
    sys.stdout.write(page(stored_runs()))

"""What a suite of someone else reports: a result for each of its tests."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
KNOWN = "known"
"""It expects what only some brokers do, and fails for no other reason: `detail` says which."""


@dataclass(frozen=True)
class Result:
    """One test of theirs; `detail` is why it failed or was skipped."""

    run: str
    test: str
    outcome: str
    detail: str = ""


def report(results: Sequence[Result]) -> str:
    """The failed and skipped tests, and how many there are of each kind in each run."""
    lines = [
        f"{each.outcome}: {each.run}, {each.test}: {each.detail}"
        for each in results
        if each.outcome != PASSED
    ]
    for run in dict.fromkeys(each.run for each in results):
        counts = Counter(each.outcome for each in results if each.run == run)
        lines.append(f"{run}: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return "\n".join(lines)


def of_pytest(run: str, report: str, known: Mapping[str, str]) -> Iterator[Result]:
    """The results in a report of pytest; `known` says of failing tests why they fail."""
    for case in ElementTree.fromstring(report).iter("testcase"):
        name = case.get("name", "")
        told = next(
            (case.find(kind) for kind in ("failure", "error", "skipped") if case.find(kind) is not None), None
        )
        if told is None:
            yield Result(run, name, PASSED)
            continue
        outcome, detail = (SKIPPED if told.tag == "skipped" else FAILED), told.get("message", "")[:300]
        if outcome == FAILED and name in known:
            outcome, detail = KNOWN, known[name]
        yield Result(run, name, outcome, " ".join(detail.split()))


# --- docs/foreign.md

DOCS = Path(__file__).parents[2] / "docs"
STORED, PAGE = DOCS / "foreign.json", DOCS / "foreign.md"
HEAD = """# Suites of others

What tests of other projects found when they ran against this broker. Do not edit: `make foreign` runs them
and writes this page; `make foreign ARGS='kgo kafka-python'` runs some of them. Each test of theirs passed,
failed, was skipped by itself, or is known to expect what only some brokers do. The tests of kafkajs and
aiokafka need a checkout of their repositories: `make foreign ARGS='kafkajs --checkout kafkajs=DIR'`.

"""
DETAIL_CHARACTERS = 200


def store(results: Sequence[Result]) -> None:
    """Replace what is stored of the runs in `results`, and write the page."""
    stored = stored_runs()
    for run in dict.fromkeys(each.run for each in results):
        own = [each for each in results if each.run == run]
        stored[run] = {
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "counts": Counter(each.outcome for each in own),
            "others": [
                [each.test, each.outcome, shown(each.detail)] for each in own if each.outcome != PASSED
            ],
        }
    STORED.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(stored_runs()))


def shown(detail: str) -> str:
    """The beginning of a reason, for a table; without the path of a log, which only this machine has."""
    text = re.sub(r"[\s|]+", " ", re.sub(r"(; )?/\S+", "", detail)).strip()
    return text[:DETAIL_CHARACTERS]


def stored_runs() -> dict[str, Any]:
    """What is known of each run."""
    known: dict[str, Any] = json.loads(STORED.read_text()) if STORED.exists() else {}
    return known


def page(stored: Mapping[str, Any]) -> str:
    """A table of the runs, and a list of what did not pass and was not skipped."""
    kinds = (PASSED, FAILED, KNOWN, SKIPPED)
    rows = [["suite", *kinds, "run on"], ["---"] * (len(kinds) + 2)]
    rows += [
        [run, *(told["counts"].get(kind, 0) for kind in kinds), told["date"]] for run, told in stored.items()
    ]
    lines = [f"| {' | '.join(map(str, row))} |\n" for row in rows]
    for outcome, title in ((FAILED, "Failed"), (KNOWN, "Known"), (SKIPPED, "Skipped")):
        found = [
            (run, *each) for run, told in stored.items() for each in told["others"] if each[1] == outcome
        ]
        if found:
            lines.append(f"\n## {title}\n\n| suite | test | why |\n| --- | --- | --- |\n")
            lines += [f"| {run} | {test} | {detail} |\n" for run, test, _, detail in found]
    return HEAD + "".join(lines)

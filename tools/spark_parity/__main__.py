"""Runs Spark's own Kafka connector and format("ottla") on the same topics, and writes what differs.

    python -m tools.spark_parity                        writes docs/spark-options.md
    python -m tools.spark_parity assign subscribe       only the cases of these options

Every option of the connector has at least one case here. Each case runs in one Spark session through both
formats: rows, refusals and numbers of tasks are compared. A difference without a reason in REASONS is an
error: either it is a fault of ours, or somebody has to say why it is wanted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ottla.spark.causes import cause
from tools.peer_cache import SPARK_KAFKA
from tools.spark_parity.bench import OURS, THEIRS, Bench, bench
from tools.spark_parity.cases import REASONS, Case, cases

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "spark-options.md"
RESULTS = ROOT / "tests" / "golden" / "spark_options.json"
SAME = "same"


class Outcome(NamedTuple):
    """What came of a case: rows, or a refusal with the first line of its text."""

    rows: Any = None
    refusal: str = ""


# --- running


def outcome(act: Callable[[Bench, str], Any], bench: Bench, kind: str) -> Outcome:
    """What the case gives through a format."""
    try:
        return Outcome(act(bench, kind))
    except Exception as error:  # noqa: BLE001 - a refusal of any kind is an answer
        return Outcome(refusal=cause(str(error))[:300])


def is_same(theirs: Outcome, ours: Outcome) -> bool:
    """The same rows, or a refusal by both; their words differ."""
    if theirs.refusal or ours.refusal:
        return bool(theirs.refusal) == bool(ours.refusal)
    return bool(theirs.rows == ours.rows)


class Compared(NamedTuple):
    """A case with both outcomes."""

    case: Case
    theirs: Outcome
    ours: Outcome


def compare(chosen: Iterable[Case]) -> list[Compared]:
    """Run the cases through both formats."""
    made = []
    with bench() as place:
        for case in chosen:
            theirs, ours = (outcome(case.act, place, kind) for kind in (THEIRS, OURS))
            made.append(Compared(case, theirs, ours))
            mark = "same" if is_same(theirs, ours) else "DIFFERENT"
            sys.stderr.write(f"{mark:10} {case.option}: {case.what}\n")
            if mark != "same":
                sys.stderr.write(f"    theirs {str(theirs)[:400]}\n    ours   {str(ours)[:400]}\n")
    return made


# --- the page

_HEAD = f"""# Options, beside Spark's own connector

Every option of Spark's Kafka connector, used in both formats on the same topics in one session. "Same" means
the same rows, the same numbers of tasks or batches, or a refusal by both. Made by
`python -m tools.spark_parity`, which runs spark-sql-kafka-0-10 {SPARK_KAFKA} and `format("ottla")`; a
difference that has no reason below fails that run.

| option | case | result |
|---|---|---|
"""
_TAIL = """
## Not options

- `sources[0].metrics` of a query's progress is empty: Spark takes metrics only from sources in Java.
  `ottla.spark.lag(progress).metrics` has the same figures.
- Tasks have no preferred executors, continuous triggers are refused: Spark's Python API has neither.
- Which settings of Java's client (`kafka.*`) work, have no effect or are refused is a table in
  [spark.md](spark.md#settings-of-kafkas-client).
"""


def page(results: Mapping[str, str]) -> str:
    """The page. Raises KeyError for a case without a result, and for a difference without a reason."""
    lines = []
    for case in cases():
        name = f"{case.option}: {case.what}"
        result = results[name] if results[name] == SAME else f"differs: {REASONS[name]}"
        lines.append(f"| `{case.option}` | {case.what} | {result} |")
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


def main(words: list[str]) -> None:
    """Run the cases whose option is one of the words, or all; store the results, and write the page."""
    results: dict[str, str] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for case, theirs, ours in compare(one for one in cases() if not words or one.option in words):
        results[f"{case.option}: {case.what}"] = SAME if is_same(theirs, ours) else "differs"
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(results))


if __name__ == "__main__":
    main(sys.argv[1:])

"""What a suite of someone else reports: a result for each of its tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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

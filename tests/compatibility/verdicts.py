"""What a step came to, and how a client's script says so: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
ORACLE = Path(__file__).with_name("oracle.jsonl")
"""The outcomes on real Kafka."""


@dataclass(frozen=True)
class Verdict:
    """One step of one client."""

    step: str
    outcome: str
    detail: str = ""


@dataclass
class Report:
    """All verdicts of one client; a client that could not be had has none and says why."""

    client: str
    version: str = ""
    verdicts: list[Verdict] = field(default_factory=list)
    missing: str = ""

    def count(self, outcome: str) -> int:
        return sum(verdict.outcome == outcome for verdict in self.verdicts)


def load(path: Path) -> dict[str, dict[str, str]]:
    """Outcomes by client and step, as `save` wrote them."""
    known: dict[str, dict[str, str]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        known.setdefault(row["client"], {})[row["step"]] = row["outcome"]
    return known


def save(path: Path, reports: Iterable[Report]) -> None:
    """Keep the outcomes, without details that differ from run to run; others' rows stay."""
    known = load(path) if path.exists() else {}
    for report in reports:
        if not report.missing:
            known[report.client] = {verdict.step: verdict.outcome for verdict in report.verdicts}
    rows = [
        {"client": client, "step": step, "outcome": outcome}
        for client, steps in sorted(known.items())
        for step, outcome in steps.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

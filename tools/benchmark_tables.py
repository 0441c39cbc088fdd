"""Saved benchmark runs as tables: the figures and goals of docs/benchmarks.md, and all runs.

What the goals are, and why one is missed, is in benchmarks/goals.toml; what was measured is in
docs/benchmarks.jsonl. `python -m tools.benchmark_charts` writes the tables and the charts.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "docs" / "benchmarks.jsonl"
GOALS = ROOT / "benchmarks" / "goals.toml"
PAGE = ROOT / "docs" / "benchmarks.md"
ALL_RUNS = ROOT / "docs" / "benchmark-runs.md"
TIMES = "\N{MULTIPLICATION SIGN}"
ALL_RUNS_HEAD = """# Benchmark runs

All of [benchmarks.jsonl](benchmarks.jsonl): the last saved run of each [benchmark](benchmarks.md), written
by `python -m tools.benchmark_charts`. A ratio above 1 means that ottla is better, whatever the unit. Runs
marked † stood in the text of an earlier page, with three digits; their commit wrote them down.
"""

Line = dict[str, Any]


def saved_runs() -> list[Line]:
    """Every line of the file."""
    return [json.loads(line) for line in RUNS.read_text().splitlines()]


def scaled(value: float) -> str:
    """Three digits and a unit."""
    for factor, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= factor:
            return f"{value / factor:.3g}{suffix}"
    return f"{value:.3g}"


# ---- goals


class Goals:
    """The goals beside the runs."""

    def __init__(self, runs: Sequence[Line], tables: Mapping[str, list[Line]]) -> None:
        self._runs, self._tables = runs, tables

    def figures(self) -> str:
        """The table of the figures at the top of the page."""
        lines = ["| what | ottla | beside it | run |", "|---|---|---|---|"]
        for figure in self._tables["figure"]:
            run = self._run(figure, figure["name"])
            if run is None:
                raise LookupError(f"{GOALS.name}: {figure['name']!r} is not among the saved runs")
            shown = [peer for peer in run["peers"] if peer["name"] in figure["beside"]]
            cells = (
                figure["what"],
                f"{scaled(run['ours'])} {run['unit']}",
                beside(shown),
                circumstances([run]),
            )
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)

    def table(self) -> str:
        """How many are met, and the table of all."""
        rows, verdicts = [], []
        for area, goals in groupby(self._tables["goal"], lambda goal: goal["area"]):
            rows.append(f"| **{area}** | | | | | | |")
            for goal in goals:
                row, verdict = self._row(goal)
                rows.append(row)
                verdicts += verdict
        counts = (sum(verdict is wanted for verdict in verdicts) for wanted in (True, False, None))
        met, missed, unknown = counts
        return "\n".join(
            [
                f"{met + missed + unknown} figures have a goal: {met} reach it, {missed} miss it (bold), "
                f"and {unknown} have no saved run.",
                "",
                "| what | goal | result | | run | measured by | why it is missed |",
                "|---|---|---|---|---|---|---|",
                *rows,
            ]
        )

    def _row(self, goal: Line) -> tuple[str, list[bool | None]]:
        names = [(of, goal["name"].replace("{of}", of)) for of in goal.get("of", [""])]
        runs = [self._run(goal, name) for _, name in names]
        wanted = [goal | limits_of(goal, number) for number in range(len(names))]
        verdicts = [is_met(want, run) for want, run in zip(wanted, runs, strict=True)]
        results = [
            f"{of}: {result_of(want, run)}" if of else result_of(want, run)
            for (of, _), want, run in zip(names, wanted, runs, strict=True)
        ]
        found = [run for run in runs if run is not None]
        has_goal = "least" in goal or "most" in goal
        why = "" if all(verdicts) or not has_goal else goal.get("why", "")
        cells = (
            goal["what"],
            goal_text(goal) if has_goal else "",
            "; ".join(results) if found else "not saved",
            verdict_text(verdicts) if has_goal else "",
            circumstances(found),
            f"`{goal['command']}`",
            why,
        )
        return f"| {' | '.join(cells)} |", verdicts if has_goal else []

    def _run(self, goal: Line, name: str) -> Line | None:
        for run in self._runs:
            is_wanted = run["name"] == name and goal.get("on", "") in run["run"]["machine"]
            if is_wanted and ("unit" not in goal or run["unit"].startswith(goal["unit"])):
                return run
        return None


def limits_of(goal: Line, number: int) -> Line:
    """The limits of one of the results that a goal is about."""
    given = {side: goal[side] for side in ("least", "most") if side in goal}
    return {side: limit[number] if isinstance(limit, list) else limit for side, limit in given.items()}


def goal_text(goal: Line) -> str:
    """What is wanted: ratios to a peer, or limits."""
    if "beside" not in goal:
        sign, limits = ("≥", goal["least"]) if "least" in goal else ("≤", goal["most"])
        return f"{sign} {_listed(limits, '')} {goal['unit']}"
    return ", or ".join(f"≥ {_listed(way['least'], TIMES)} {way['beside']}" for way in _ways(goal))


def _listed(limits: float | list[float], unit: str) -> str:
    """The limit of all results, or that of each in their order."""
    return ", ".join(f"{scaled(limit)}{unit}" for limit in (limits if isinstance(limits, list) else [limits]))


def _ways(goal: Line) -> list[Line]:
    return [goal, *([goal["or"]] if "or" in goal else [])]


def is_met(goal: Line, run: Line | None) -> bool | None:
    """Whether a run reaches a goal; None without a run, or without what it is compared with."""
    if run is None:
        return None
    if "beside" not in goal:
        if "most" in goal:
            return bool(run["ours"] <= goal["most"])
        return bool(run["ours"] >= goal["least"]) if "least" in goal else None
    ratios = [(ratio_to(run, way["beside"]), way["least"]) for way in _ways(goal)]
    known = [ratio >= least for ratio, least in ratios if ratio is not None]
    return any(known) if known else None


def ratio_to(run: Line, beside_name: str) -> float | None:
    """Ours to a peer's, which may be named with its version; None if that was not measured."""
    for peer in run["peers"]:
        if beside_name in (peer["name"], f"{peer['name']} {peer['version']}"):
            return None if peer["ratio"] is None else float(peer["ratio"])
    return None


def result_of(goal: Line, run: Line | None) -> str:
    """What a run has found, in the words of the goal; bold if that misses it."""
    if run is None:
        return "not saved"
    if "beside" not in goal:
        text = f"{scaled(run['ours'])} {goal['unit']}"
    else:
        ratios = [ratio_to(run, way["beside"]) for way in _ways(goal)]
        text = " and ".join(f"{ratio:.3g}{TIMES}" for ratio in ratios if ratio is not None)
    return f"**{text}**" if is_met(goal, run) is False else text or "not saved"


def verdict_text(verdicts: Sequence[bool | None]) -> str:
    """One word if all agree, else how many."""
    texts = {True: "met", False: "missed", None: "not saved"}
    kinds = [kind for kind in texts if kind in verdicts]
    if len(kinds) == 1:
        return texts[kinds[0]]
    return ", ".join(f"{verdicts.count(kind)} {texts[kind]}" for kind in kinds)


# ---- runs


def beside(peers: Sequence[Line]) -> str:
    """Peers and the ratios to them."""
    return "; ".join(f"{peer['name']} {peer['version']}".strip() + f": {_compared(peer)}" for peer in peers)


def _compared(peer: Line) -> str:
    if peer["ratio"] is None:
        return str(peer.get("note", "not measured"))
    return f"{scaled(peer['value'])}, {peer['ratio']:.3g}{TIMES}"


def circumstances(lines: Sequence[Line]) -> str:
    """When runs were, of which commit, and how busy the machine was."""
    runs = [line["run"] for line in lines]
    days = dict.fromkeys(run["at"][:10] for run in runs)
    commits = dict.fromkeys(run["commit"] + "†" * ("copied_from" in run) for run in runs)
    loads = [run["load"] for run in runs if run["load"] is not None]
    if not runs:
        return ""
    return ", ".join([*days, *commits, *([load_text(loads)] if loads else [])])


def load_text(loads: Sequence[float | str]) -> str:
    """The load of runs: a number, a range, or what was said of it."""
    said = list(dict.fromkeys(load for load in loads if isinstance(load, str)))
    numbers = [load for load in loads if not isinstance(load, str)]
    if numbers:
        low, high = min(numbers), max(numbers)
        said.append(f"load {low:.0f}" if f"{low:.0f}" == f"{high:.0f}" else f"load {low:.0f} to {high:.0f}")
    return " and ".join(said)


def all_runs(runs: Sequence[Line]) -> str:
    """The page of all runs, by command."""
    parts = [ALL_RUNS_HEAD]
    by_command: dict[str, list[Line]] = {}
    for run in runs:
        by_command.setdefault(f"{run['run']['command']}, {run['run']['at'][:10]}", []).append(run)
    for command, lines in by_command.items():
        parts.append(f"\n## {command}\n\n{circumstances(lines)}, {lines[0]['run']['machine']}\n\n")
        parts.append("| what | ottla | beside it |\n|---|---|---|\n")
        parts += [
            f"| {line['name']} | {scaled(line['ours'])} {line['unit']} | {beside(line['peers'])} |\n"
            for line in lines
        ]
    return "".join(parts)


# ---- pages


def with_section(page: str, heading: str, body: str) -> str:
    """The page with another text below a heading of the second level, up to the next heading."""
    section = re.compile(rf"(^## {re.escape(heading)}\n).*?(?=^#|\Z)", re.MULTILINE | re.DOTALL)
    if not section.search(page):
        raise LookupError(f"{PAGE.name} has no section {heading!r}")
    return section.sub(lambda found: f"{found[1]}\n{body}\n\n", page)


def pages() -> Iterator[tuple[Path, str]]:
    """Each page with tables, and what it has to say."""
    runs = saved_runs()
    goals = Goals(runs, tomllib.loads(GOALS.read_text()))
    page = with_section(PAGE.read_text(), "Ten figures", goals.figures())
    yield PAGE, with_section(page, "Goals", goals.table())
    yield ALL_RUNS, all_runs(runs)

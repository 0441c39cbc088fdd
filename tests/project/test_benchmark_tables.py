"""The page of benchmarks: tables and charts are those of the saved runs, and a goal is judged by its run."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tools import benchmark_charts, benchmark_tables
from tools.benchmark_tables import TIMES, Goals, is_met

RUN = {
    "name": "read 1 KB",
    "unit": "records/s",
    "ours": 300.0,
    "peers": [
        {"name": "fast", "version": "1.0", "value": 200.0, "ratio": 1.5},
        {"name": "bare", "version": "", "value": 600.0, "ratio": 0.5},
        {"name": "absent", "version": "", "value": None, "ratio": None, "note": "not installed"},
    ],
    "run": {
        "command": "read",
        "at": "2026-11-18T10:00",
        "commit": "abc",
        "load": 3.2,
        "machine": "2 cores, EPYC",
    },
}


def test_the_tables_are_those_of_the_saved_runs() -> None:
    for page, text in benchmark_tables.pages():
        assert page.read_text() == text, "python -m tools.benchmark_charts"


def test_charts_are_drawn_from_the_runs() -> None:
    results = benchmark_charts.shown_results()
    pictures = set(benchmark_charts.PICTURES.glob("bench-*.svg"))
    assert {benchmark_charts.PICTURES / benchmark_charts.file_name(result) for result in results} == pictures
    for result in results:
        chart = benchmark_charts.PICTURES / benchmark_charts.file_name(result)
        assert chart.read_text() == benchmark_charts.drawn(result), "python -m tools.benchmark_charts"


def test_every_goal_has_a_benchmark() -> None:
    sources = (benchmark_tables.ROOT / "benchmarks").rglob("*.py")
    names = {name for source in sources for name in re.findall(r'@benchmark\("(.*)"\)', source.read_text())}
    goals = tomllib.loads(benchmark_tables.GOALS.read_text())["goal"]
    assert {name for goal in goals for name in goal["command"].split()} <= names


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        ({"beside": "fast", "least": 1.5}, True),
        ({"beside": "fast 1.0", "least": 2}, False),
        ({"beside": "fast", "least": 2, "or": {"beside": "bare", "least": 0.5}}, True),
        ({"beside": "fast", "least": 2, "or": {"beside": "absent", "least": 0.5}}, False),
        ({"beside": "absent", "least": 1}, None),
        ({"most": 300}, True),
        ({"least": 301}, False),
    ],
)
def test_a_goal_is_met_by_a_ratio_or_a_limit(goal: dict[str, Any], expected: bool | None) -> None:
    assert is_met(goal, RUN) is expected
    assert is_met(goal, None) is None


def test_a_row_says_what_is_missed_why_and_what_is_not_saved() -> None:
    goal = {"area": "Reading", "what": "rows", "command": "read", "name": "read {of}", "of": ["1 KB", "1 MB"]}
    limits = {"beside": "fast", "least": [2, 3], "why": "the disk"}
    assert Goals([RUN], {"goal": [goal | limits]}).table().splitlines() == [
        "2 figures have a goal: 0 reach it, 1 miss it (bold), and 1 have no saved run.",
        "",
        "| what | goal | result | | run | measured by | why it is missed |",
        "|---|---|---|---|---|---|---|",
        "| **Reading** | | | | | | |",
        f"| rows | ≥ 2{TIMES}, 3{TIMES} fast | 1 KB: **1.5{TIMES}**; 1 MB: not saved | 1 missed, 1 not saved "
        "| 2026-11-18, abc, load 3 | `read` | the disk |",
    ]


def test_a_goal_for_one_kind_of_processor_takes_no_other_run() -> None:
    goal = {
        "area": "Reading",
        "what": "rows",
        "command": "read",
        "name": "read 1 KB",
        "beside": "fast",
        "least": 1,
    }
    assert "not saved" in Goals([RUN], {"goal": [goal | {"on": "Intel"}]}).table()
    assert "met" in Goals([RUN], {"goal": [goal | {"on": "EPYC"}]}).table()


def test_a_section_is_replaced_up_to_the_next_heading() -> None:
    page = "# A\n\n## Goals\n\nold\n\n## More\n\ntext\n"
    assert benchmark_tables.with_section(page, "Goals", "new") == page.replace("old", "new")
    with pytest.raises(LookupError, match="no section 'Absent'"):
        benchmark_tables.with_section(page, "Absent", "new")

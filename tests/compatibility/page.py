"""docs/compatibility.md, made from the reports of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from tests.compatibility.catalog import BY_NAME, CLIENT_LIBRARY, COMMAND_LINE, ZOOKEEPER_TOOLS
from tests.compatibility.verdicts import FAILED, PASSED, SKIPPED, Report

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
MARKS = {PASSED: "✓", FAILED: "✗", SKIPPED: "skipped"}
DETAIL_CHARACTERS = 200
HEAD = f"""# Compatibility

Which clients and tools work with the broker of ottla {version("ottla")}. Do not edit: this page is made by
`python -m tests.compatibility`. Every client runs as a process of its own against a broker of its own. The
same scripts pass on Apache Kafka, in the version that the table names, with `--oracle`; `make test` compares
the outcomes. A client that cannot be fetched is left out of a run, by name: it is counted here and skipped
there.

"""
SECTIONS = {
    CLIENT_LIBRARY: (
        "Clients",
        "A codec's row sends records with and without keys, values and headers, reads them back and\n"
        "compares keys, values, headers and times. An empty field: the client has no such call,\n"
        "or its script does not make it.",
    ),
    COMMAND_LINE: ("Kafka's command-line tools", "They know the broker by its address alone."),
    ZOOKEEPER_TOOLS: (
        "Kafka's tools and classic consumer of the ZooKeeper days",
        "They find topics and brokers in ZooKeeper, where the broker registers itself (`zookeeper.connect`).",
    ),
}


def page(reports: Sequence[Report]) -> str:
    """The whole page."""
    parts = [HEAD, _summary(reports)]
    for kind, (title, text) in SECTIONS.items():
        own = [report for report in reports if BY_NAME[report.client].kind == kind and not report.missing]
        if own:
            parts.append(f"\n## {title}\n\n{text}\n\n{_grid(own)}")
    parts.append(_open_points(reports))
    return "".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _summary(reports: Sequence[Report]) -> str:
    return _table(
        ["client", "version", "proven with Kafka", "passed", "failed", "skipped"],
        [
            [
                report.client,
                "not to be had" if report.missing else report.version,
                BY_NAME[report.client].oracle,
                *(str(report.count(each)) for each in (PASSED, FAILED)),
                "all" if report.missing else str(report.count(SKIPPED)),
            ]
            for report in reports
        ],
    )


def _grid(reports: Sequence[Report]) -> str:
    # A dict keeps the order in which the steps were done, and a step that only some clients have stays in it.
    steps = {verdict.step: None for report in _longest_first(reports) for verdict in report.verdicts}
    outcomes = [{verdict.step: MARKS[verdict.outcome] for verdict in each.verdicts} for each in reports]
    return _table(
        ["step", *(report.client for report in reports)],
        [[step, *(known.get(step, "") for known in outcomes)] for step in steps],
    )


def _longest_first(reports: Sequence[Report]) -> list[Report]:
    return sorted(reports, key=lambda report: -len(report.verdicts))


def _open_points(reports: Sequence[Report]) -> str:
    lines = [f"- {report.client}: {_line(report.missing)}\n" for report in reports if report.missing]
    for report in reports:
        lines += [
            f"- {report.client}, {verdict.step}, {verdict.outcome}: {_line(verdict.detail)}\n"
            for verdict in report.verdicts
            if verdict.outcome != PASSED
        ]
    return "\n## Not passed\n\n" + ("".join(lines) or "Nothing.\n")


def _line(text: str) -> str:
    return " ".join(text.split())[:DETAIL_CHARACTERS]

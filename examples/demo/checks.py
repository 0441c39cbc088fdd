"""What has to hold at the end of the demo."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.dataset as ds

from examples.demo.events import EVENTS, PARTITIONS

Sums = list[tuple[int, str, int, int]]


def check_group(group: str, files: Iterable[Path]) -> None:
    """Check that the group read every event; twice only what the killed member had not committed."""
    runs: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]
    for file in files:
        for line in file.read_text().splitlines():
            partition, first, last = map(int, line.split())
            runs[partition].append((first, last))
    given = sum(last - first + 1 for some in runs for first, last in some)
    total = 0
    for partition, some in enumerate(runs):
        expected = 0
        for first, last in sorted(some):
            assert first <= expected, f"{group}: nobody got offset {expected} of partition {partition}"
            expected = max(expected, last + 1)
        total += expected
    assert total == EVENTS, f"{group} got {total:,} events of {EVENTS:,}"
    print(f"{group:<12} every event was read; {given - total:,} of {given:,} twice, after the kill")


def check_tables(online: Path, offline: Path, truth: Sums) -> None:
    """Check that both runs of the pipeline gave the expected table."""
    for name, path in (("online", online), ("offline", offline)):
        rows = sums(path)
        assert rows == truth, f"the {name} table differs: {rows[:3]} … for {truth[:3]} …"
    print("the online table, the offline table and what was produced are equal:\n")
    print("minute    kind      events      cents")
    for minute, kind, count, cents in truth:
        print(f"{minute // 60_000 % 60:>5}     {kind:<6} {count:>9,} {cents:>10,}")
    print()


def sums(path: Path) -> Sums:
    """The rows of a table of the pipeline."""
    rows = ds.dataset(path, partitioning="hive").to_table().to_pylist()
    return sorted(
        (round(row["window_start"].timestamp() * 1000), row["kind"], row["events"], row["cents"])
        for row in rows
    )

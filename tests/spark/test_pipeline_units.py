"""The files of a pipeline's tables: once whatever is repeated, whole whenever the driver is killed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.landing_compaction import compact_directory, is_full, outer, runs
from ottla.spark.landing_files import LandedFile, file_of, landed_in
from ottla.spark.locations import location
from ottla.spark.pipeline.aggregates import Times, TotalsTable
from ottla.spark.pipeline.spans import Spans, is_overlap, spans_between, united
from ottla.spark.pipeline.table_files import write_files
from ottla.spark.pipeline.units import TableUnits, Unit, extended, missing, to_compact

PLACE = TopicAndPartition("orders", 0)
OTHER = TopicAndPartition("orders", 1)


def spans(start: int, end: int) -> Spans:
    return {PLACE: [(start, end)]}


def commit(units: TableUnits, name: str, records: Spans, values: dict[str, list[int]]) -> None:
    """What a writer does: stages a file for each partition of the table, and replaces what it touches."""
    staged = units.staging(name)
    batches = [
        pa.RecordBatch.from_pydict({"day": [day] * len(ids), "id": ids}) for day, ids in values.items()
    ]
    files = write_files(units.where, staged, ["day"], batches)
    with units.settled():
        units.commit(
            name, records, staged, files, lambda there: [u for u in there if is_overlap(records, u.spans)]
        )


def rows(root: Path) -> list[int]:
    """What a reader sees that lists the directory."""
    files = [path for path in root.rglob("*.parquet") if "_ottla" not in path.parts]
    return sorted(number for path in files for number in pq.ParquetFile(path).read()["id"].to_pylist())


class Killed(BaseException):
    """kill -9, as far as one process can have it."""


def killed_after(calls: int, act: Callable[[], object]) -> bool:
    """Do something, and die before the file operation of this number; whether it came so far."""
    left = [calls]

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **more: object) -> object:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return real(*arguments, **more)

        return call

    names = ("replace", "unlink", "fsync", "link")
    with (
        patch.multiple(os, **dict[str, Any]({name: counted(getattr(os, name)) for name in names})),
        patch.object(Path, "unlink", counted(Path.unlink)),
    ):
        try:
            act()
        except Killed:
            return True
    return False


def test_a_killed_commit_is_finished_or_never_was(tmp_path: Path) -> None:
    was_killed, number = True, 0
    outcomes = set()
    while was_killed:
        root = tmp_path / str(number)
        units = TableUnits(location(root))
        commit(units, "q-0", spans(0, 2), {"1": [0], "2": [1]})
        commit(units, "q-1", spans(2, 4), {"1": [2, 3]})

        def replace(units: TableUnits = units) -> None:
            commit(units, "both", spans(0, 4), {"1": [10, 12, 13], "2": [11]})

        was_killed = killed_after(number, replace)
        with units.settled():
            found = rows(root)
            assert found in ([0, 1, 2, 3], [10, 11, 12, 13])
            assert united(one.spans for one in units.all()) == spans(0, 4)
            assert sorted(file for one in units.all() for file in one.files) == sorted(
                str(path.relative_to(root)) for path in root.glob("day=*/*.parquet")
            )
        outcomes.add(found[0])
        number += 1
    assert outcomes == {0, 10}
    assert number > 8


def test_a_batch_is_known_by_its_name_and_by_its_records() -> None:
    units = [Unit("q-0", spans(0, 10)), Unit("range-1", spans(10, 30))]
    assert missing(units, "q-0", spans(0, 10)) == {}
    assert missing(units, "q-0", spans(0, 50)) == {}
    assert missing(units, "q-1", spans(10, 20)) == {}  # a range was run over it since
    assert missing(units, "q-2", spans(5, 25)) == {}
    assert missing(units, "q-3", spans(30, 40)) == spans(30, 40)
    assert missing(units, "q-3", spans(20, 40)) == spans(30, 40)
    assert missing([Unit("x", spans(5, 6))], "q-3", {PLACE: [(0, 9)], OTHER: [(0, 1)]}) == {
        PLACE: [(0, 5), (6, 9)],
        OTHER: [(0, 1)],
    }


def test_a_range_cuts_no_unit() -> None:
    both = {PLACE: [(0, 10)], OTHER: [(0, 5)]}
    units = [Unit("a", both), Unit("b", {OTHER: [(5, 9)]}), Unit("c", spans(10, 12))]
    assert extended(spans(3, 4), units) == both
    assert extended(spans(10, 11), units) == spans(10, 12)
    assert extended({OTHER: [(4, 6)]}, units) == {PLACE: [(0, 10)], OTHER: [(0, 9)]}
    assert extended(spans(50, 60), units) == spans(50, 60)
    gap = [Unit("d", {PLACE: [(0, 2), (8, 9)]}), Unit("e", spans(2, 20))]
    assert extended(spans(0, 1), gap) == spans(0, 20)


def test_small_units_are_put_together() -> None:
    units = [Unit(f"q-{n}", spans(n, n + 1), nbytes=10 if n else 100) for n in range(6)]
    assert to_compact(units, 0, 50) == []
    assert to_compact(units, 6, 50) == []  # five of them are small
    assert [one.name for one in to_compact(units, 5, 50)] == [f"q-{n}" for n in range(1, 6)]
    assert [one.name for one in to_compact(units, 5, 30)] == ["q-1", "q-2", "q-3"]


def test_what_spans_have_in_common() -> None:
    assert spans_between({PLACE: 3}, {PLACE: 3, OTHER: 2}) == {OTHER: [(0, 2)]}
    assert united([spans(5, 9), spans(0, 5), {PLACE: [(20, 21)]}]) == {PLACE: [(0, 9), (20, 21)]}


def totals(**columns: list[object]) -> pa.Table:
    starts = pa.array(columns.pop("window_start"), pa.timestamp("us", "UTC"))
    return pa.table({"window_start": starts, **columns})


def test_totals_take_the_place_of_those_with_their_keys(tmp_path: Path) -> None:
    table = TotalsTable(str(tmp_path), ("window_start", "kind"), ("day",))
    table.merge(totals(window_start=[0, 0, 60], kind=["a", None, "a"], day=[1, 1, 2], events=[1, 2, 3]))
    news = totals(window_start=[0, 0], kind=[None, "b"], day=[1, 1], events=[5, 6])
    was_killed, number = True, 0
    while was_killed:  # and repeated, until it comes through
        was_killed = killed_after(number, lambda: table.merge(news))
        number += 1

    def found(day: int) -> list[tuple[object, object]]:
        rows = pq.ParquetFile(tmp_path / f"day={day}" / "totals.parquet").read().to_pylist()
        return [(row["kind"], row["events"]) for row in rows]

    assert found(1) == [("a", 1), ("b", 6), (None, 5)]
    assert found(2) == [("a", 3)]
    table.replace(totals(window_start=[0], kind=["c"], day=[1], events=[7]), Times())
    assert found(1) == [("c", 7)]
    assert not (tmp_path / "day=2" / "totals.parquet").exists()


def land(root: Path, start: int, end: int) -> None:
    numbers = pa.table({"id": pa.array(range(start, end), pa.int64())})
    (root / "p").mkdir(exist_ok=True)
    pq.write_table(numbers, root / file_of("p", start, end))


def test_landed_files_in_a_row_become_one(tmp_path: Path) -> None:
    for start in range(0, 40, 10):
        land(tmp_path, start, start + 10)
    land(tmp_path, 50, 60)
    where = location(tmp_path)
    assert not is_full(where, "p", 6)
    assert is_full(where, "p", 5)
    was_killed, number = True, 0
    while was_killed:
        was_killed = killed_after(number, lambda: compact_directory(where, "p"))
        kept = [tmp_path / file.path for file in outer(landed_in(where, "p"))]
        found = [one for path in kept for one in pq.ParquetFile(path).read()["id"].to_pylist()]
        assert sorted(found) == [*range(40), *range(50, 60)]
        number += 1
    assert [(file.start, file.end) for file in landed_in(where, "p")] == [(0, 40), (50, 60)]
    assert not is_full(where, "p", 3)
    names = os.listdir(tmp_path / "p")
    assert len(names) == 2 + sum(name.startswith(".") for name in names)


def test_runs_of_small_files_end_at_gaps_large_files_and_the_wanted_size() -> None:
    bounds = [(0, 1), (1, 2), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9)]
    sizes = [1, 1, 1, 9, 4, 4, 4, 4]
    files = [LandedFile(*offsets, "", size) for offsets, size in zip(bounds, sizes, strict=True)]
    found = runs(files, 8)
    assert [[file.start for file in run] for run in found] == [[0, 1], [5, 6], [7, 8]]

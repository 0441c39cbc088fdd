"""A Delta table knows which records it has: by offsets in its own commits, compared before each commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from ottla import ConfigError, TopicAndPartition
from ottla.spark.pipeline import delta
from ottla.spark.pipeline.delta import DeltaLakeTable
from ottla.spark.pipeline.sink_form import SinkForm, SinkFormat
from ottla.spark.pipeline.spans import Spans
from ottla.spark.pipeline.tables import TableBatch

ORDERS = TopicAndPartition("orders", 0)


class Written:
    """Rows in the place of those that Spark has written; `before` is called when they are read."""

    before: Any = None

    def __init__(self, rows: pa.Table, _: str) -> None:
        self._rows = rows

    def __enter__(self) -> Written:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def reader(self) -> pa.RecordBatchReader:
        if Written.before is not None:
            act, Written.before = Written.before, None
            act()
        return self._rows.to_reader()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeltaLakeTable:
    monkeypatch.setattr(delta, "_Staged", Written)
    monkeypatch.setattr(Written, "before", None)
    return DeltaLakeTable(SinkForm(SinkFormat.DELTA, str(tmp_path / "table"), compact_after=0))


def rows(start: int, end: int) -> Any:
    places = {"topic": ["orders"] * (end - start), "partition": [0] * (end - start)}
    return pa.table({**places, "offset": pa.array(range(start, end), pa.int64())})


def batch(query: str, number: int, start: int, end: int) -> TableBatch:
    return TableBatch(query, number, {ORDERS: [(start, end)]})


def offsets(tmp_path: Path) -> list[int]:
    return sorted(DeltaTable(tmp_path / "table").to_pyarrow_table().column("offset").to_pylist())


def test_a_new_checkpoint_goes_on_where_the_table_is(table: DeltaLakeTable, tmp_path: Path) -> None:
    table.append(rows(0, 10), batch("old", 0, 0, 10))
    assert table.missing(batch("old", 0, 0, 10)) == {}
    assert table.missing(batch("new", 0, 0, 8)) == {}
    assert table.missing(batch("new", 0, 0, 15)) == {ORDERS: [(10, 15)]}
    table.append(rows(10, 15), batch("new", 0, 10, 15))
    assert offsets(tmp_path) == list(range(15))


def test_a_writer_that_was_overtaken_writes_nothing_twice(table: DeltaLakeTable, tmp_path: Path) -> None:
    table.append(rows(0, 10), batch("first", 0, 0, 10))
    Written.before = lambda: table.append(rows(10, 15), batch("first", 1, 10, 15))
    with pytest.raises(ConfigError, match="another writer has written some of these records"):
        table.append(rows(10, 15), batch("zombie", 7, 10, 15))
    assert offsets(tmp_path) == list(range(15))
    others = {TopicAndPartition("orders", 1): [(0, 5)]}
    Written.before = lambda: table.append(rows(15, 20), batch("first", 2, 15, 20))
    table.append(rows(100, 105), TableBatch("second", 0, others))  # other records: both are kept
    assert offsets(tmp_path) == [*range(20), *range(100, 105)]


def test_a_file_of_an_overtaken_writer_is_not_committed(
    table: DeltaLakeTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(name: str, start: int, end: int) -> tuple[str, int, str]:
        path = tmp_path / "table" / name
        pq.write_table(rows(start, end), path)
        return name, path.stat().st_size, "{}"

    table.append(rows(0, 10), batch("first", 0, 0, 10))
    there = DeltaLakeTable._there

    def overtaken(version: Any, wanted: Spans) -> Spans:
        found = there(version, wanted)
        monkeypatch.setattr(DeltaLakeTable, "_there", staticmethod(there))
        table.append(rows(10, 15), batch("first", 1, 10, 15))  # after the zombie has compared the offsets
        return found

    monkeypatch.setattr(DeltaLakeTable, "_there", staticmethod(overtaken))
    with pytest.raises(ConfigError, match="another writer has written some of these records"):
        table.add_file(*put("zombie.parquet", 10, 15), batch("zombie", 7, 10, 15))
    table.add_file(*put("next.parquet", 15, 20), batch("first", 2, 15, 20))
    assert offsets(tmp_path) == list(range(20))


def test_rows_whose_values_the_table_would_change_are_refused(table: DeltaLakeTable, tmp_path: Path) -> None:
    table.append(rows(0, 10), batch("first", 0, 0, 10))
    halves = rows(10, 20)
    halves = halves.set_column(2, "offset", pa.array([number + 0.5 for number in range(10, 20)]))
    with pytest.raises(ConfigError, match="column offset is double, and the table has int64"):
        table.append(halves, batch("first", 1, 10, 20))
    with pytest.raises(ConfigError, match="column offset is double"):
        table.replace(halves, {ORDERS: [(0, 10)]}, is_all=False)
    table.append(
        rows(10, 20).set_column(2, "offset", pa.array(range(10, 20), pa.int32())), batch("first", 1, 10, 20)
    )
    assert offsets(tmp_path) == list(range(20))


def test_a_range_tells_what_the_table_has(table: DeltaLakeTable, tmp_path: Path) -> None:
    table.replace(rows(0, 10), {ORDERS: [(0, 10)]}, is_all=True)
    assert table.missing(batch("stream", 0, 0, 12)) == {ORDERS: [(10, 12)]}
    table.replace(rows(8, 14), {ORDERS: [(8, 14)]}, is_all=False)
    assert table.missing(batch("stream", 0, 0, 16)) == {ORDERS: [(14, 16)]}
    table.replace(rows(20, 22), {ORDERS: [(20, 22)]}, is_all=False)  # there is a gap before it
    assert table.missing(batch("stream", 0, 0, 16)) == {ORDERS: [(14, 16)]}
    assert offsets(tmp_path) == [*range(14), 20, 21]

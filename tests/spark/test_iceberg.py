"""An Iceberg table knows which records it has: by offsets in its own commits, compared before each commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from ottla import ConfigError, TopicAndPartition
from ottla.spark import iceberg_catalog
from ottla.spark.iceberg import DATA, IcebergTable
from ottla.spark.locations import location
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.spans import Spans
from ottla.spark.pipeline.table_files import write_files
from tests.scale import nightly, sized
from tests.spark import duckdb_query, lake_query
from tests.spark.foreign_packages import said_by
from tools.peer_cache import ICEBERG_SPARK, Unavailable, duckdb_with_lakes, maven_jar, spark_for_lakes
from tools.store_servers import BUCKET

ORDERS, OTHER = TopicAndPartition("orders", 0), TopicAndPartition("orders", 1)
Options = tuple[str, dict[str, str]]


@pytest.fixture(params=["files", "files in s3", "sql", *sized([], ["files in hdfs", "files in gcs", "rest"])])
def named(request: pytest.FixtureRequest, tmp_path: Path) -> Options:
    """A URL and options: no catalog, in a directory, a store and HDFS; a catalog in SQLite; Iceberg's own."""
    if request.param == "files":
        return str(tmp_path / "table"), {}
    if request.param == "files in s3":
        request.getfixturevalue("s3")
        return f"s3://{BUCKET}/{tmp_path.name}/table", {}
    if request.param == "files in gcs":
        request.getfixturevalue("gcs")
        return f"gs://{BUCKET}/{tmp_path.name}/table", {}
    if request.param == "files in hdfs":
        return f"{request.getfixturevalue('hdfs').url}/{tmp_path.name}/table", {}
    if request.param == "rest":
        uri = {"type": "rest", "uri": request.getfixturevalue("rest_catalog").url}
        return "", {"catalog": "test", "table": f"{tmp_path.name}.orders", **uri}
    uri = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    return "", {"catalog": "test", "table": "shop.orders", **uri}


@pytest.fixture
def table(named: Options) -> IcebergTable:
    return IcebergTable(*named)


def rows(start: int, end: int, **more: object) -> pa.Table:
    count = end - start
    places = {"topic": ["orders"] * count, "partition": pa.array([0] * count, pa.int32())}
    columns = {name: [value] * count for name, value in more.items()}
    return pa.table({**places, "offset": pa.array(range(start, end), pa.int64()), **columns})


def write(table: IcebergTable, data: pa.Table, partition_by: Sequence[str] = ()) -> list[str]:
    url, schema = table.prepared(data.schema)
    files = write_files(location(url), DATA, partition_by, data.to_batches(), schema)
    return [file.path for file in files]


def add(table: IcebergTable, start: int, end: int, **more: object) -> None:
    table.add(write(table, rows(start, end, **more)), {ORDERS: [(start, end)]})


def read(table: IcebergTable) -> Any:
    """The table of pyiceberg."""
    return table._named.load()


def offsets(table: IcebergTable) -> list[int]:
    return sorted(read(table).scan().to_arrow()["offset"].to_pylist())


def test_a_repeat_and_a_new_writer_find_what_is_there(table: IcebergTable, named: Options) -> None:
    add(table, 0, 10)
    other = IcebergTable(*named)
    assert other.ends([ORDERS, OTHER]) == {ORDERS: 10}
    assert other.there({ORDERS: [(0, 15)], OTHER: [(0, 3)]}) == {ORDERS: [(0, 10)]}
    with pytest.raises(ConfigError, match="another writer has written some of these records"):
        add(other, 5, 15)
    add(other, 10, 15)
    assert offsets(table) == list(range(15))


def test_a_writer_that_was_overtaken_writes_nothing_twice(table: IcebergTable, named: Options) -> None:
    add(table, 0, 10)
    zombie = IcebergTable(*named)
    files = write(zombie, rows(10, 15))
    real = IcebergTable._opened
    meanwhile = [lambda: add(table, 10, 20)]

    def opened(self: IcebergTable) -> Any:
        found = real(self)
        if self is zombie and meanwhile:
            meanwhile.pop()()  # after the zombie has compared the offsets
        return found

    with (
        patch.object(IcebergTable, "_opened", opened),
        pytest.raises(ConfigError, match="another writer has written"),
    ):
        zombie.add(files, {ORDERS: [(10, 15)]})
    assert offsets(table) == list(range(20))
    meanwhile.append(lambda: add(table, 20, 25))
    with patch.object(IcebergTable, "_opened", opened):  # other records: both are kept
        zombie.add(write(zombie, rows(100, 105)), {OTHER: [(0, 5)]})
    assert offsets(table) == [*range(25), *range(100, 105)]
    assert table.ends([ORDERS, OTHER]) == {ORDERS: 25, OTHER: 5}


def test_columns_are_added_files_merged_and_ranges_replaced(table: IcebergTable) -> None:
    for start in range(0, 40, 10):
        add(table, start, start + 10, **({"color": "red"} if start else {}))
    assert len(list(read(table).scan().plan_files())) == 4
    assert table.compact(5) == 0
    assert table.compact(4) == 4
    assert len(list(read(table).scan().plan_files())) == 1
    found = read(table).scan().to_arrow()
    assert found["color"].to_pylist().count("red") == 30
    spans: Spans = {ORDERS: [(5, 35)]}
    table.replace(write(table, rows(5, 35, color="blue")), spans, is_all=False)
    found = read(table).scan().to_arrow()
    assert sorted(found["offset"].to_pylist()) == list(range(40))
    assert found["color"].to_pylist().count("blue") == 30
    assert table.ends([ORDERS, OTHER]) == {ORDERS: 40}
    table.replace(write(table, rows(0, 3)), {ORDERS: [(0, 3)]}, is_all=True)
    assert offsets(table) == [0, 1, 2]


def test_partitions_of_the_table_and_foreign_readers(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    table = IcebergTable(str(tmp_path / "table"), {}, ["day"])
    data = pa.concat_tables([rows(0, 10, day="mon"), rows(10, 30, day="tue")])
    table.add(write(table, data, ["day"]), {ORDERS: [(0, 30)]})
    tasks = list(read(table).scan(row_filter="day = 'tue'").plan_files())
    assert [task.file.record_count for task in tasks] == [20]
    metadata = read(table).metadata_location
    with patch.dict("os.environ", {"POLARS_ICEBERG_PLANNER": "pyiceberg"}):
        found = polars.scan_iceberg(metadata).group_by("day").len().collect()
    assert dict(found.iter_rows()) == {"mon": 10, "tue": 20}


def grown(path: Path) -> None:
    """A table of 60 rows whose files were merged and whose columns have changed."""
    table = IcebergTable(str(path))
    add(table, 0, 30)
    add(table, 30, 50, color="red")
    assert table.compact(2) == 2
    add(table, 50, 60)


def test_duckdb_reads_the_table(tmp_path: Path) -> None:
    try:
        packages = duckdb_with_lakes()
    except Unavailable as error:
        pytest.skip(f"DuckDB's extension for Iceberg cannot be had here: {error}")
    grown(tmp_path / "table")
    sql = f"select count(*), max(\"offset\"), count(color) from iceberg_scan('{tmp_path}/table')"
    assert said_by(packages, duckdb_query.__file__, sql) == [[60, 59, 20]]


@nightly("another version of Spark: 400 MB and a driver")
def test_spark_reads_the_table(tmp_path: Path) -> None:
    try:
        packages, jar = spark_for_lakes(), maven_jar(ICEBERG_SPARK)
    except Unavailable as error:
        pytest.skip(f"Iceberg's runtime for Spark cannot be had here: {error}")
    grown(tmp_path / "table")
    sql = "select count(*), max(offset), count(color) from rows"
    assert said_by(packages, lake_query.__file__, "iceberg", str(jar), str(tmp_path / "table"), sql) == [
        [60, 59, 20]
    ]


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a path"):
        IcebergTable("", {})
    with pytest.raises(ConfigError, match=r"as shop\.orders"):
        IcebergTable("", {"catalog": "test", "table": "orders"})
    with pytest.raises(ConfigError, match="catalog=test"):
        IcebergTable("", {"catalog": "test", "table": "shop.orders", "type": "nonsense"})
    form = {
        "source": {"bootstrap": "127.0.0.1:1", "topics": ["t"], "start": "earliest"},
        "sink": {"format": "iceberg", "path": str(tmp_path)},
    }
    assert PipelineForm.of(form).steps()[-1] == f"write    iceberg {tmp_path}"


def test_the_newest_version_is_found_behind_the_hint(tmp_path: Path) -> None:
    table = IcebergTable(str(tmp_path / "table"))
    add(table, 0, 5)
    hint = tmp_path / "table" / "metadata" / "version-hint.text"
    hint.write_text("1")  # a writer was killed before it wrote the hint
    assert table.ends([ORDERS, OTHER]) == {ORDERS: 5}
    hint.unlink()
    assert offsets(IcebergTable(str(tmp_path / "table"))) == list(range(5))
    assert iceberg_catalog._version_of("x/v17.metadata.json") == 17

"""Data files that `ottla land` adds to a Delta table: what they say of themselves, and where they do not fit.

The readers are delta-rs, DuckDB and Spark's own Delta.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType

from ottla import ConfigError, EmbeddedBroker, Producer
from ottla.spark.lander import Lander
from ottla.spark.raw_tables import SCHEMA, raw_table
from ottla.spark.table_columns import changed, optional
from tests.scale import nightly
from tests.spark import duckdb_query, lake_query
from tests.spark.conftest import Filled
from tests.spark.foreign_packages import said_by
from tests.spark.pipeline_runs import table_of
from tools.peer_cache import DELTA_SPARK, Unavailable, duckdb_with_lakes, maven_jar, spark_for_lakes

FAR_MS = 1_700_000_000_000_000
"""A time in microseconds, given as milliseconds: a mistake that brokers accept."""


def land(broker: EmbeddedBroker, topic: str, kind: str, url: Path, *, has_headers: bool = False) -> int:
    source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    table = raw_table(kind, str(url), {}, has_headers=has_headers)
    return sum(batch.records for batch in Lander(source, table).batches())


def test_files_of_a_delta_table_say_what_they_hold(
    broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(90))
    url = tmp_path / "table"
    land(broker, topic, "delta", url)
    (file,) = pa.table(DeltaTable(url).get_add_actions(flatten=True)).to_pylist()
    assert (file["num_records"], file["min.offset"], file["max.offset"]) == (90, 0, 29)
    assert (file["min.topic"], file["max.partition"]) == (topic, 2)
    assert (file["min.timestamp"].timestamp(), file["max.timestamp"].timestamp()) == (1000, 1089)
    late = DeltaTable(url).to_pyarrow_table(filters=[("offset", ">", 28)])
    assert sorted(map(int, late["value"].to_pylist())) == [87, 88, 89]


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_records_of_any_time_and_without_key_or_value(
    kind: str, broker: EmbeddedBroker, topic: str, producer: Producer, tmp_path: Path
) -> None:
    times = [0, 1, 253_402_300_799_999, FAR_MS]
    for number, time_ms in enumerate(times):
        key = b"\xff" if number else None
        producer.send(
            topic, None if number == 1 else b"%d" % number, key=key, partition=0, timestamp_ms=time_ms
        )
        producer.flush()
        land(broker, topic, kind, tmp_path / kind)
    rows = table_of(tmp_path / kind, kind).sort_by("offset")
    assert rows["timestamp"].cast(pa.int64()).to_pylist() == [1000 * time_ms for time_ms in times]
    assert rows["key"].to_pylist() == [None, b"\xff", b"\xff", b"\xff"]
    assert rows["value"].to_pylist() == [b"0", None, b"2", b"3"]
    if kind == "delta":
        DeltaTable(tmp_path / kind).optimize.compact()
        assert table_of(tmp_path / kind, kind).sort_by("offset") == rows


def by_name(table: Path) -> None:
    """Let a table's columns have other names in its files, as Spark does with delta.columnMapping.mode."""
    log = table / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
            schema = json.loads(action["metaData"]["schemaString"])
            for number, field in enumerate(schema["fields"], 1):
                names = {"id": number, "physicalName": f"col-{number}"}
                field["metadata"] = {f"delta.columnMapping.{name}": value for name, value in names.items()}
            action["metaData"]["schemaString"] = json.dumps(schema)
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"day": "string"}, "partitioned by day"),
        ({"value": "string"}, "the column value as .*string.*, not .*binary"),
        ({"Offset": "long"}, "the column Offset, which is not offset"),
        ({"value": "binary!"}, "rules for the column value"),
        ({"shop": "string!"}, "rules for the column shop"),
        ({"value": "binary?"}, "the rule value IS NOT NULL"),
        ({"double": "long="}, "rules for the column double"),
        ({"value": "binary@"}, r"columns by name \(delta.columnMapping.mode\)"),
    ],
)
def test_a_table_that_raw_files_do_not_fit_is_refused(
    columns: dict[str, str], why: str, broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(3))
    url = tmp_path / "table"
    fields = [
        Field(
            name,
            PrimitiveType(kind.rstrip("!?=@")),
            nullable=not kind.endswith("!"),
            metadata={"delta.generationExpression": "offset * 2"} if kind.endswith("=") else None,
        )
        for name, kind in columns.items()
    ]
    by = [name for name in columns if name == "day"]
    DeltaTable.create(url, Schema([*fields, Field("n", PrimitiveType("long"))]), partition_by=by)
    if "binary?" in columns.values():
        DeltaTable(url).alter.add_constraint({"sound": "value is not null"})
    if "binary@" in columns.values():
        by_name(url)
    with pytest.raises(ConfigError, match=why):
        land(broker, topic, "delta", url)
    assert DeltaTable(url).to_pyarrow_table().num_rows == 0


def test_a_table_of_another_writer_gets_the_columns_that_it_lacks(
    broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(3))
    write_deltalake(tmp_path / "table", pa.table({"value": [b"old"], "more": [1]}))
    assert land(broker, topic, "delta", tmp_path / "table", has_headers=True) == 3
    rows = DeltaTable(tmp_path / "table").to_pyarrow_table().sort_by("value")
    assert rows["value"].to_pylist() == [b"0", b"1", b"2", b"old"]
    assert rows["more"].to_pylist() == [None, None, None, 1]
    assert set(SCHEMA.names) <= set(rows.schema.names)


@pytest.mark.parametrize(
    ("there", "new", "fits"),
    [
        (pa.int64(), pa.int32(), True),
        (pa.int32(), pa.int64(), False),
        (pa.int32(), pa.float64(), False),
        (pa.float64(), pa.float32(), True),
        (pa.string(), pa.large_string(), True),
        (pa.string(), pa.int64(), False),
        (pa.decimal128(10, 2), pa.decimal128(9, 1), True),
        (pa.decimal128(10, 2), pa.decimal128(10, 3), False),
        (pa.struct([("a", pa.int64())]), pa.struct([("b", pa.string()), ("a", pa.int32())]), True),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.string())]), False),
        (pa.list_(pa.int64()), pa.list_(pa.float64()), False),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32()), True),
        (pa.timestamp("us", "UTC"), pa.date32(), False),
    ],
)
def test_values_that_a_column_would_change(there: pa.DataType, new: pa.DataType, fits: bool) -> None:
    why = changed(pa.schema([("x", there), ("y", there)]), pa.schema([("x", new), ("z", new)]))
    assert why == ("" if fits else f"column x is {new}, and the table has {there}")


def filled(broker: EmbeddedBroker, topic: str, producer: Producer, fill: Filled, url: Path) -> None:
    """A table of 92 records in two files; two of them have headers, and times of their own."""
    fill(topic, range(90))
    land(broker, topic, "delta", url)
    for time_ms in (1, FAR_MS):
        producer.send(
            topic, None, key=b"\xff", partition=1, timestamp_ms=time_ms, headers=[("h", b"1"), ("h", None)]
        )
    producer.flush()
    assert land(broker, topic, "delta", url, has_headers=True) == 2


def test_every_column_may_be_null() -> None:
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    rows = [
        {"s": {"a": None}, "l": [None, {"a": None}], "m": [("k", None)]},
        {"s": None, "l": None, "m": None},
    ]
    types = {
        "s": inner,
        "l": pa.list_(pa.field("element", inner, nullable=False)),
        "m": pa.map_("string", inner),
    }
    schema = optional(pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()]))
    made = pa.Table.from_pylist(rows, schema)
    made.validate(full=True)
    assert made.to_pylist() == rows
    struct, items, entries = schema.types
    inner_types = [struct, items.value_type, entries.item_type]
    assert all(field.nullable for kind in inner_types for field in kind)
    assert all(field.nullable for field in (*schema, items.value_field, entries.item_field))


SQL = (
    "select count(*), count(key), count(value), count(headers), max({offset}), count(distinct topic)"
    " from {rows} where {offset} >= 20 and {offset} < 1000"
)
WANTED = [[32, 32, 30, 2, 31, 1]]


def test_duckdb_reads_the_files(
    broker: EmbeddedBroker, topic: str, producer: Producer, fill: Filled, tmp_path: Path
) -> None:
    try:
        packages = duckdb_with_lakes()
    except Unavailable as error:
        pytest.skip(f"DuckDB's extensions cannot be had here: {error}")
    filled(broker, topic, producer, fill, tmp_path / "table")
    rows = f"delta_scan('{tmp_path}/table')"
    assert said_by(packages, duckdb_query.__file__, SQL.format(offset='"offset"', rows=rows)) == WANTED
    recent = f"select count(*) from {rows} where \"timestamp\" >= '1970-01-01 00:17:00+00'"
    assert said_by(packages, duckdb_query.__file__, recent) == [[71]]


@nightly("another version of Spark: 400 MB and a driver")
def test_spark_reads_the_files(
    broker: EmbeddedBroker, topic: str, producer: Producer, fill: Filled, tmp_path: Path
) -> None:
    try:
        packages, jars = spark_for_lakes(), ",".join(str(maven_jar(jar)) for jar in DELTA_SPARK)
    except Unavailable as error:
        pytest.skip(f"Delta for Spark cannot be had here: {error}")
    filled(broker, topic, producer, fill, tmp_path / "table")
    words = (lake_query.__file__, "delta", jars, str(tmp_path / "table"))
    assert said_by(packages, *words, SQL.format(offset="offset", rows="rows")) == WANTED
    recent = "select count(*) from rows where timestamp >= timestamp'1970-01-01 00:17:00+00'"
    assert said_by(packages, *words, recent) == [[71]]

"""What is wrong is told before anything runs: all of it, in lines that name the thing."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from deltalake import write_deltalake
from pyspark.sql import Row

from ottla import ConfigError, EmbeddedBroker, KafkaError, Producer, TopicAndPartition
from ottla.cli.pipeline_status import gauges, summary
from ottla.spark import Pipeline
from ottla.spark.iceberg import IcebergTable
from ottla.spark.pipeline.checks import shown_rows
from ottla.spark.pipeline.state import BatchDone, seconds_behind
from ottla.spark.pipeline.status import PartitionStatus, PipelineStatus


def pipeline(broker: EmbeddedBroker, topic: str, root: Path, **sections: Any) -> Pipeline:
    source = {"bootstrap": broker.bootstrap, "topics": [topic], "start": "earliest"}
    given = {"source": source, "sink": {"format": "parquet", "path": str(root / "table")}, **sections}
    return Pipeline.of(given)


def test_everything_that_needs_no_spark_is_told_at_once(
    broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    wrong = pipeline(
        broker,
        f"no-{topic}-*",
        tmp_path,
        decode={"format": "avro", "schema_file": str(tmp_path / "missing.avsc")},
        transform={"python": "no_such_module:rows"},
        sink={"format": "parquet", "path": str(tmp_path / "file" / "table")},
        dead_letters={"topic": f"{topic}-bad"},
        checkpoint="/proc/state",
    )
    found = "\n".join(wrong.problems())
    for words in (
        f"no topic matches ^(no-{topic}-.*)$",
        "missing.avsc: there is no such file",
        "no_such_module:rows: No module named",
        f"{tmp_path}/file is no directory",
        f"[dead_letters] topic '{topic}-bad' does not exist",
    ):
        assert words in found
    assert pipeline(broker, topic, tmp_path, checkpoint=str(tmp_path / "state")).problems() == []


def test_each_wildcard_and_the_content_of_schemas_are_looked_at(
    broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "order.avsc").write_text('{"type": "recrod"}')
    source = {"bootstrap": broker.bootstrap, "topics": [f"{topic}*", "retruns-*", "nowhere"]}
    decode = {"format": "avro", "schema_file": str(tmp_path / "order.avsc")}
    key = {"format": "protobuf", "schema_file": str(tmp_path / "none.desc"), "message": "M"}
    wrong = pipeline(broker, topic, tmp_path, source=source, decode={**decode, "key": key}).problems()
    found = "\n".join(wrong)
    assert "no topic matches retruns-*, nowhere" in found
    assert "recrod" in found
    assert "none.desc: there is no such file" in found


def test_what_a_user_may_not_read_or_write_is_told(tmp_path: Path) -> None:
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with EmbeddedBroker(properties=rules) as strict:
        for name in ("in", "out"):
            strict.create_topic(name, 1)
        admin = AdminClient({"bootstrap.servers": strict.bootstrap})
        seen = [
            AclBinding(
                *(ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*"),
                *(AclOperation.DESCRIBE, AclPermissionType.ALLOW),
            )
            for name in ("in", "out")
        ]
        for done in admin.create_acls(seen).values():
            done.result()
        found = pipeline(
            strict, "in", tmp_path, sink={"format": "topic", "options": {"topic": "out"}}
        ).problems()
        assert found == [
            "[source] this user may not read in",
            "[sink] this user may not write topic 'out'",
        ]


def test_a_location_that_no_table_can_have_is_refused(
    broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    for given in ({"checkpoint": "ftp://host/state"}, {"sink": {"format": "delta", "path": "gopher://n/t"}}):
        with pytest.raises(ConfigError, match=r"(ftp://host/state|gopher://n/t): a location is"):
            pipeline(broker, topic, tmp_path, **given)


def test_a_topic_that_cannot_be_written_stops_the_start(topic: str, tmp_path: Path) -> None:
    with EmbeddedBroker(properties={"auto.create.topics.enable": "false"}) as strict:
        strict.create_topic(topic, 1)
        sink = {"format": "topic", "options": {"topic": "nowhere"}}
        for run in ("online", "offline"):
            with pytest.raises((ConfigError, KafkaError), match="nowhere"):
                getattr(pipeline(strict, topic, tmp_path, sink=sink), run)(None, tmp_path / "state")


def test_spark_tells_the_columns_of_each_step_and_what_is_wrong(
    spark: Any, broker: EmbeddedBroker, producer: Producer, topic: str, tmp_path: Path
) -> None:
    for number in range(5):
        producer.send(topic, b'{"id": %d, "kind": "k"}' % number, partition=0)
    producer.flush()
    decode = {"format": "json", "schema": "id long, kind string"}
    sql = "select value.*, timestamp from records"
    window = {"duration": "1 minute", "aggregates": ["count(*) as events"], "group_by": ["kind"]}
    good = pipeline(broker, topic, tmp_path, decode=decode, transform={"sql": sql})
    analysed = good.analysed(spark, sample=2)
    assert [name for name, _ in analysed.schemas] == ["decode", "sql"]
    assert analysed.schemas[1][1] == "struct<id:bigint,kind:string,timestamp:timestamp>"
    assert [row.kind for row in analysed.rows] == ["k", "k"]
    assert analysed.problems == []
    for sections, words in (
        ({"transform": {"sql": "select valeu.id from records"}}, "`valeu`"),
        ({"transform": {"sql": "selct id from records"}}, "Syntax error at or near 'selct'"),
        ({"decode": {"format": "json", "schema": "id lnog"}}, "lnog"),
        ({"transform": {"sql": sql}, "window": {**window, "time": "tme"}}, "tme"),
        ({"transform": {"sql": sql}, "window": {**window, "aggregates": ["cnt(*) as n"]}}, "cnt"),
        ({"transform": {"sql": sql}, "window": {**window, "duration": "1 minit"}}, "minit"),
        ({"transform": {"python": f"{nothing.__module__}:nothing"}}, "nothing returned NoneType"),
    ):
        (told,) = pipeline(broker, topic, tmp_path, **{"decode": decode, **sections}).analysed(spark).problems
        assert words in told
        assert "\n" not in told


def nothing(_: object) -> None:
    """A function of a user who forgot to return the rows."""


def test_columns_that_a_sink_cannot_have_are_told_for_each_sink(
    spark: Any, broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    tables: list[tuple[dict[str, Any], str]] = [
        ({"partition_by": ["ofset"]}, "[sink] partition_by=ofset; did you mean offset?"),
        ({"sql": "select 1 as a, 2 as A"}, "[sink] column a is there twice"),
        ({"sql": "select array(null) as a"}, "[sink] column a is array<void>: no parquet table has that"),
        ({"format": "delta", "sql": "select timestamp - timestamp as a from records"}, "no delta table"),
        ({"format": "parquet", "sql": "select timestamp - timestamp as a from records"}, ""),
        ({"sql": "select make_interval(1) as a from records"}, "column a is interval: no parquet table"),
        ({"sql": "select nope from records"}, "`nope`"),
    ]
    sinks = [
        {"format": "parquet", "path": str(tmp_path / str(number)), **sink}
        for number, (sink, _) in enumerate(tables)
    ]
    told = pipeline(broker, topic, tmp_path, sink=sinks).analysed(spark).problems
    for problem, words in zip(told, [words for _, words in tables if words], strict=True):
        assert words in problem
    for sql, options, words in (
        ("select string(value) as value from records", {}, "no topic: set the option topic"),
        ("select 1 as value", {"topic": topic}, "column value is int"),
        ("select value, array(1) as headers from records", {"topic": topic}, "column headers is array<int>"),
    ):
        sink = {"format": "topic", "options": options, "sql": sql}
        (problem,) = pipeline(broker, topic, tmp_path, sink=sink).analysed(spark).problems
        assert words in problem


def test_example_rows_are_text_for_people() -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    row = Row(key=b"k\xff", at=at, day=at.date(), parts=[Row(price=Decimal("1.50"), at=at)], none=None, n=1)
    assert list(shown_rows([row])) == [
        {
            "key": "k\ufffd",
            "at": "2026-01-31 12:00:00+00:00",
            "day": "2026-01-31",
            "parts": [{"price": "1.50", "at": "2026-01-31 12:00:00+00:00"}],
            "none": None,
            "n": 1,
        }
    ]


def test_columns_that_do_not_fit_the_table_that_is_there_are_told(
    spark: Any, broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    """The types are those of the table that a pipeline has filled, or somebody else."""
    write_deltalake(tmp_path / "delta", pa.table({"n": pa.array([1], pa.int32()), "day": ["mon"]}))
    IcebergTable(str(tmp_path / "iceberg")).prepared(pa.schema([("n", pa.int32()), ("day", pa.string())]))
    for sink, words in (
        (
            {"format": "delta", "sql": "select 1.5d as n from records"},
            "column n is double, and the table has int32",
        ),
        (
            {"format": "delta", "sql": "select 1 as n, 'x' as day from records", "partition_by": ["day"]},
            "by nothing",
        ),
        ({"format": "delta", "sql": "select time'12:00:00' as n from records"}, "Time64"),
        ({"format": "iceberg", "sql": "select 'one' as n from records"}, "n: int -> string"),
        ({"format": "delta", "sql": "select smallint(1) as n, 'new' as more from records"}, ""),
        ({"format": "iceberg", "sql": "select bigint(1) as n, 'new' as more from records"}, ""),
    ):
        path = str(tmp_path / str(sink["format"]))
        told = pipeline(broker, topic, tmp_path, sink={**sink, "path": path}).analysed(spark).problems
        assert [words in problem for problem in told] == ([True] if words else []), told


def test_a_catalog_that_does_not_answer_is_told(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    options = {"catalog": "prod", "table": "shop.orders", "type": "sql", "uri": f"sqlite:///{tmp_path}/no/db"}
    (problem,) = pipeline(broker, topic, tmp_path, sink={"format": "iceberg", "options": options}).problems()
    assert problem.startswith("catalog=prod: ")
    assert "unable to open database file" in problem
    assert "\n" not in problem


def test_how_far_behind_in_records_and_seconds() -> None:
    where = TopicAndPartition("t", 0)
    ends = [10, 20, 30]
    batches = [
        BatchDone(n, f"2026-01-31T12:00:0{n}Z", 10, 2.0, {"t": {"0": end}}) for n, end in enumerate(ends)
    ]
    now = datetime(2026, 1, 31, 12, 0, 10, tzinfo=UTC)
    assert seconds_behind(batches, {where: 30}, now) == 0.0
    assert seconds_behind(batches, {where: 20}, now) == 8.0
    assert seconds_behind(batches, {where: 5}, now) == 10.0
    assert seconds_behind([], {where: 5}, now) is None
    status = PipelineStatus(2, [PartitionStatus("t", 0, 20, 30, 10)], batches, 8.0)
    assert summary(status).endswith("batch 2  10 records in 2.0 s  5/s  lag 10  8 s behind")
    text = gauges(status)
    assert 'ottla_pipeline_lag_records{topic="t",partition="0"} 10.0' in text
    assert "ottla_pipeline_lag_seconds 8.0" in text
    assert "ottla_pipeline_batch_seconds 2.0" in text

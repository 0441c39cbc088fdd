"""Several sources and sinks in one pipeline, joins between them, and rows that were sent twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from ottla import ConfigError, EmbeddedBroker, Producer
from ottla.spark import Pipeline
from tests.spark.pipeline_runs import forget_last_batch, run_online

ORDERS = {"format": "json", "schema": "id long, customer long"}
PAID = {"format": "json", "schema": "order long, cents long"}
JOIN = (
    "select o.value.id, o.value.customer, p.value.cents, o.timestamp from orders o"
    " join paid p on o.value.id = p.value.order"
)
SECOND_MS = 1000


@pytest.fixture
def names(broker: EmbeddedBroker, topic: str) -> dict[str, str]:
    made = {name: f"{topic}-{name}" for name in ("orders", "paid", "large")}
    for name in made.values():
        broker.create_topic(name, 2, config={"retention.ms": "-1"})
    return made


def send(producer: Producer, names: dict[str, str], which: str, numbers: range) -> None:
    for number in numbers:
        value = (
            {"id": number, "customer": number % 3}
            if which == "orders"
            else {"order": number, "cents": number}
        )
        producer.send(
            names[which], json.dumps(value), partition=number % 2, timestamp_ms=(number + 1) * SECOND_MS
        )
    producer.flush()


def joined(broker: EmbeddedBroker, names: dict[str, str], root: Path, **more: Any) -> Pipeline:
    def source(name: str, decode: dict[str, str]) -> dict[str, Any]:
        return {
            "name": name,
            "bootstrap": broker.bootstrap,
            "topics": [names[name]],
            "start": "earliest",
            "decode": decode,
        }

    large = {"topic": names["large"]}
    return Pipeline.of(
        {
            "source": [source("orders", ORDERS), source("paid", PAID)],
            "transform": {"sql": JOIN},
            "sink": [
                {"format": "parquet", "path": str(root / "all"), "partition_by": ["date"]},
                {"format": "delta", "path": str(root / "delta"), "sql": "select id, cents from records"},
                {"format": "topic", "options": large, "sql": "select id from records where cents >= 10"},
            ],
            **more,
        }
    )


@pytest.mark.timeout(300)
def test_a_join_goes_to_every_sink_once(
    spark: Any, broker: EmbeddedBroker, producer: Producer, names: dict[str, str], tmp_path: Path, read: Any
) -> None:
    """A payment comes in another batch than its order, and a batch is repeated after a crash."""
    pipeline = joined(broker, names, tmp_path)
    send(producer, names, "orders", range(20))
    send(producer, names, "paid", range(5))
    state = tmp_path / "state"
    run_online(spark, pipeline, state)
    forget_last_batch(state)
    send(producer, names, "paid", range(5, 12))
    run_online(spark, pipeline, state)
    ids = list(range(12))

    def check(root: Path) -> None:
        rows = ds.dataset(root / "all", partitioning="hive").to_table().sort_by("id").to_pylist()
        assert [(row["id"], row["customer"], row["cents"]) for row in rows] == [(n, n % 3, n) for n in ids]
        delta = DeltaTable(root / "delta").to_pyarrow_table().sort_by("id")
        assert delta.column_names == ["id", "cents"]
        assert delta.column("id").to_pylist() == ids

    check(tmp_path)
    committed = {"kafka.isolation.level": "read_committed"}
    large = [row["value"] for task in read(subscribe=names["large"], **committed) for row in task]
    assert sorted(large) == [b'{"id":10}', b'{"id":11}']
    status = pipeline.status(state)
    assert {part.topic for part in status.partitions} == {names["orders"], names["paid"]}
    assert status.lag == 0
    assert sum(batch.records for batch in status.batches) == 20 + 12
    for name in ("orders", "paid"):
        producer.send(names[name], b"{broken", partition=0)
    producer.flush()
    bad = {"path": str(tmp_path / "bad")}
    joined(broker, names, tmp_path / "off", dead_letters=bad).offline(spark)
    check(tmp_path / "off")
    assert sorted(ds.dataset(tmp_path / "bad").to_table().column("topic").to_pylist()) == sorted(
        [names["orders"], names["paid"]]
    )
    with pytest.raises(ConfigError, match="a range would cut"):
        pipeline.offline(spark, start="1970-01-01")


@pytest.mark.timeout(300)
def test_rows_that_were_sent_twice_are_written_once(
    spark: Any, broker: EmbeddedBroker, producer: Producer, names: dict[str, str], tmp_path: Path
) -> None:
    def pipeline(name: str) -> Pipeline:
        source = {"bootstrap": broker.bootstrap, "topics": [names["orders"]], "start": "earliest"}
        once = {"deduplicate_by": ["id"], "watermark": "1 minute"}
        return Pipeline.of(
            {
                "source": source,
                "decode": ORDERS,
                "transform": {"sql": "select value.*, timestamp from records", **once},
                "sink": {"format": "parquet", "path": str(tmp_path / name)},
            }
        )

    state = tmp_path / "state"
    send(producer, names, "orders", range(10))
    send(producer, names, "orders", range(5))
    run_online(spark, pipeline("on"), state)
    forget_last_batch(state)
    send(producer, names, "orders", range(8, 15))
    run_online(spark, pipeline("on"), state)
    pipeline("off").offline(spark)
    for name in ("on", "off"):
        assert sorted(ds.dataset(tmp_path / name).to_table().column("id").to_pylist()) == list(range(15))


@pytest.mark.timeout(300)
def test_several_sinks_of_one_source_leave_out_what_they_have(
    spark: Any, broker: EmbeddedBroker, producer: Producer, names: dict[str, str], tmp_path: Path
) -> None:
    def pipeline(*sinks: dict[str, Any]) -> Pipeline:
        source = {"bootstrap": broker.bootstrap, "topics": [names["orders"]], "start": "earliest"}
        sql = {"sql": "select value.*, topic, partition, offset from records"}
        return Pipeline.of({"source": source, "decode": ORDERS, "transform": sql, "sink": list(sinks)})

    even = {
        "format": "parquet",
        "path": str(tmp_path / "even"),
        "sql": "select * from records where id % 2 = 0",
    }
    rest = {"format": "parquet", "path": str(tmp_path / "all")}
    send(producer, names, "orders", range(10))
    pipeline(even).offline(spark)
    send(producer, names, "orders", range(10, 16))
    run_online(spark, pipeline(rest, even), tmp_path / "state")
    for name, step in (("all", 1), ("even", 2)):
        ids = ds.dataset(tmp_path / name).to_table().column("id").to_pylist()
        assert sorted(ids) == list(range(0, 16, step))


def test_what_does_not_go_together_is_told(broker: EmbeddedBroker, names: dict[str, str], spark: Any) -> None:
    one = {"name": "a", "bootstrap": broker.bootstrap, "topics": [names["orders"]]}
    sink = {"format": "console"}
    sql = {"sql": "select * from a"}
    for given, words in (
        ({"source": [one, one], "transform": sql}, "'a' is there twice"),
        ({"source": [one, {**one, "name": ""}]}, "needs a name for SQL"),
        ({"source": [one, {**one, "name": "b"}]}, "says what becomes of a, b"),
        ({"source": []}, r"several \[\[source\]\]"),
        ({"transform": {"deduplicate_by": ["id"]}}, "watermark go together"),
        ({"sink": [{"format": "landing", "path": "p"}, sink]}, "the only sink"),
        ({"sink": [{"format": "delta", "path": "p"}, {"format": "parquet", "path": "p"}]}, "cannot share"),
        (
            {"window": {"duration": "1 minute", "aggregates": ["count(*)"]}, "sink": {**sink, "sql": "s"}},
            "as they",
        ),
    ):
        with pytest.raises(ConfigError, match=words):
            Pipeline.of({"source": one, "sink": sink, **given})
    same = Pipeline.of({"source": [one, {**one, "name": "b"}], "sink": sink, "transform": sql})
    assert any("two sources read topic" in line for line in same.problems())
    missing = {"deduplicate_by": ["nr"], "watermark": "1 minute"}
    (told,) = Pipeline.of({"source": one, "sink": sink, "transform": missing}).analysed(spark).problems
    assert "no column nr" in told
    sources = [one, {**one, "name": "b", "topics": [names["paid"]]}]
    outer = {"sql": "select a.key, b.offset from a left join b on a.key = b.key"}
    (told,) = Pipeline.of({"source": sources, "sink": sink, "transform": outer}).analysed(spark).problems
    assert "watermark" in told
    counted = {"sql": "select string(count(*)) as value from a"}
    topic = {"format": "topic", "options": {"topic": names["large"]}}
    (told,) = Pipeline.of({"source": one, "sink": topic, "transform": counted}).analysed(spark).problems
    assert "aggregations" in told

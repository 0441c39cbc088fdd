"""Pipelines: one form, online and offline, the same table; bad records kept apart."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from ottla import ConfigError, EmbeddedBroker, Producer
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark import Pipeline
from ottla.spark.pipeline.state import PipelineState
from tests.spark.pipeline_runs import forget_last_batch, run_online, table_of

DAY_MS = 86_400_000
COMPACT_AFTER = 2
Rows = Counter[tuple[Any, ...]]
Send = Callable[[range], None]
KINDS = ("parquet", "delta", "iceberg")


def rows_of(path: Path, kind: str, columns: tuple[str, ...]) -> Rows:
    """As texts: of partition columns, each reader makes what it sees fit."""
    table = table_of(path, kind)
    texts = [[str(value) for value in table.column(name).to_pylist()] for name in columns]
    return Counter(zip(*texts, strict=True))


@pytest.fixture
def send(producer: Producer, topic: str) -> Send:
    """Number n: every 25th is broken, its day is n % 3, and its minute goes up with it."""

    def write(numbers: range) -> None:
        for number in numbers:
            good = b'{"id": %d, "amount": %d, "kind": "k%d"}' % (number, number * 3, number % 2)
            value = b"{broken" if number % 25 == 0 else good
            time_ms = (number % 3) * DAY_MS + number * 10_000
            producer.send(topic, value, key=b"k%d" % number, partition=number % 3, timestamp_ms=time_ms)
        producer.flush()

    return write


def form(broker: EmbeddedBroker, topic: str, root: Path, *kinds: str, **more: Any) -> dict[str, Any]:
    return {
        "source": {
            "bootstrap": broker.bootstrap,
            "topics": [topic],
            "start": "earliest",
            "maxOffsetsPerTrigger": 40,
        },
        "decode": {"format": "json", "schema": "id long, amount long, kind string"},
        "sink": [
            {
                "format": kind,
                "path": str(root / kind),
                "partition_by": ["date"],
                "compact_after": COMPACT_AFTER,
            }
            for kind in kinds
        ],
        "dead_letters": {"path": str(root / "bad")},
        **more,
    }


SQL = {
    "sql": "select value.id, value.amount * 2 as doubled, key, topic, partition, offset, timestamp"
    " from records where value.id % 2 = 0",
    "python": "tests.spark.pipeline_functions:tagged",
}
WINDOW = {
    "time": "timestamp",
    "duration": "1 minute",
    "watermark": "10 days",
    "group_by": ["kind"],
    "aggregates": ["count(*) as events", "sum(amount) as amount", "max(id) as last"],
}


@pytest.mark.timeout(500)
def test_online_and_offline_give_the_same_table(
    spark: Any, broker: EmbeddedBroker, topic: str, send: Send, tmp_path: Path
) -> None:
    columns = ("id", "doubled", "key", "tag", "date")
    kinds = ("delta", "parquet", "iceberg")  # refused records go where the first one goes
    online, offline = (
        Pipeline.of(form(broker, topic, tmp_path / name, *kinds, transform=SQL)) for name in ("on", "off")
    )

    def rows(name: str) -> Rows:
        first, *others = (rows_of(tmp_path / name / kind, kind, columns) for kind in kinds)
        assert all(other == first for other in others)
        return first

    state = tmp_path / "state"
    send(range(90))
    run_online(spark, online, state)
    forget_last_batch(state)
    send(range(90, 120))
    run_online(spark, online, state)
    good = [str(number) for number in range(120) if number % 25 and number % 2 == 0]
    found = rows("on")
    assert sorted(row[0] for row in found.elements()) == sorted(good)
    bad = table_of(tmp_path / "on" / "bad", "delta").to_pylist()
    assert sorted((row["key"], row["value"]) for row in bad) == sorted(
        (b"k%d" % number, b"{broken") for number in range(0, 120, 25)
    )
    assert {row["reason"] for row in bad} == {
        "not JSON: Expecting property name enclosed in double quotes at position 1, near '{broken'"
    }
    for _ in range(2):
        offline.offline(spark)
        assert rows("off") == found
    letters = ("key", "topic", "offset", "value", "reason")
    assert rows_of(tmp_path / "off" / "bad", "delta", letters) == rows_of(
        tmp_path / "on" / "bad", "delta", letters
    )
    # A range replaces what it covers, in the table that a stream has written too, and nothing else.
    for pipeline, name in ((offline, "off"), (online, "on")):
        pipeline.offline(spark, start="1970-01-02", end="1970-01-02T00:15:00Z")
        assert rows(name) == found
    send(range(120, 126))
    run_online(spark, online, state)
    grown = rows("on")
    assert sorted(row[0] for row in (grown - found).elements()) == ["120", "122", "124"]
    assert grown >= found
    files = Counter(path.parent for path in (tmp_path / "on" / "parquet").glob("date=*/*.parquet"))
    assert max(files.values()) <= COMPACT_AFTER * 2  # of two tasks
    # What a range has written, a stream leaves as it is, and goes on behind it.
    run_online(spark, offline, tmp_path / "another state")
    assert rows("off") == grown


@pytest.mark.timeout(500)
def test_landing_is_the_same_online_and_offline(
    spark: Any, broker: EmbeddedBroker, topic: str, send: Send, tmp_path: Path
) -> None:
    source = {"bootstrap": broker.bootstrap, "topics": topic, "start": "earliest", "maxOffsetsPerTrigger": 30}
    online, offline = (
        Pipeline.of(
            {
                "source": source,
                "sink": {"format": "landing", "path": str(tmp_path / name), "compact_after": 2},
            }
        )
        for name in ("on", "off")
    )
    send(range(90))
    run_online(spark, online, tmp_path / "state")
    forget_last_batch(tmp_path / "state")
    send(range(90, 96))
    run_online(spark, online, tmp_path / "state")
    offline.offline(spark)
    # Half of a file is asked for, and all of it is read: what is put together stays together.
    told = online.offline(spark, start="1970-01-01T00:05:00Z", end="1970-01-01T00:10:00Z")
    assert told[TopicAndPartition(topic, 0)][0][0] == 0
    columns = ("key", "value", "partition", "offset", "timestamp")
    found = rows_of(tmp_path / "on", "parquet", columns)
    assert found == rows_of(tmp_path / "off", "parquet", columns)
    assert len(found) == found.total() == 96
    assert len(list((tmp_path / "on").rglob("*.parquet"))) <= 2 * 3


@pytest.mark.timeout(500)
def test_windows_are_the_same_online_and_offline(
    spark: Any, broker: EmbeddedBroker, topic: str, send: Send, tmp_path: Path
) -> None:
    columns = ("window_start", "window_end", "kind", "events", "amount", "last", "date")
    transform = {"sql": "select value.*, timestamp from records"}
    online, offline = (
        Pipeline.of(form(broker, topic, tmp_path / name, *KINDS, transform=transform, window=WINDOW))
        for name in ("on", "off")
    )
    state = tmp_path / "state"
    send(range(90))
    run_online(spark, online, state)
    forget_last_batch(state)
    send(range(90, 120))
    run_online(spark, online, state)

    def rows(name: str) -> Rows:
        first, *others = (rows_of(tmp_path / name / kind, kind, columns) for kind in KINDS)
        assert all(other == first for other in others)
        return first

    found = rows("on")
    assert set(found.values()) == {1}
    assert sum(int(row[3]) for row in found) == 120 - 5
    assert sum(int(row[4]) for row in found) == sum(3 * number for number in range(120) if number % 25)
    bad = table_of(tmp_path / "on" / "bad", KINDS[0]).column("key").to_pylist()
    assert sorted(bad) == sorted(b"k%d" % number for number in range(0, 120, 25))
    offline.offline(spark)
    assert rows("off") == found
    online.offline(spark, start="1970-01-02", end="1970-01-02T00:15:00Z")
    assert rows("on") == found
    with pytest.raises(ConfigError, match="offsets would cut"):
        online.offline(spark, start='{"t": {"0": 1}}')


@pytest.mark.timeout(500)
def test_a_schema_is_inferred_once(
    spark: Any, broker: EmbeddedBroker, topic: str, producer: Producer, tmp_path: Path
) -> None:
    def pipeline(name: str) -> Pipeline:
        given = form(broker, topic, tmp_path / name, "parquet", decode={"format": "json"})
        given["sink"][0].pop("partition_by")
        return Pipeline.of({**given, "transform": {"sql": "select value.*, offset from records"}})

    state = tmp_path / "state"
    producer.send(topic, b'{"id": 1, "name": "a"}', partition=0)
    producer.send(topic, b"{broken", partition=0)
    producer.flush()
    run_online(spark, pipeline("on"), state)
    assert PipelineState(state).schema() == "`id` bigint, `name` string"
    producer.send(topic, b'{"id": "two", "name": "b"}', partition=0)
    producer.send(topic, b'{"id": 3, "more": 7}', partition=0)
    producer.flush()
    run_online(spark, pipeline("on"), state)
    pipeline("off").offline(spark, state)
    for name in ("on", "off"):
        rows = ds.dataset(tmp_path / name / "parquet").to_table().sort_by("offset").to_pylist()
        assert [(row["id"], row["name"]) for row in rows] == [(1, "a"), (3, None)]
    with pytest.raises(ConfigError, match="inferred once and kept in the checkpoint"):
        pipeline("off").offline(spark)


@pytest.mark.timeout(500)
def test_a_function_over_batches_refuses_single_rows(
    spark: Any, broker: EmbeddedBroker, topic: str, producer: Producer, tmp_path: Path
) -> None:
    for number in (1, 0, 10, 0, 7):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush()
    given: dict[str, Any] = {
        "source": {"bootstrap": broker.bootstrap, "topics": topic},
        "decode": {"format": "string"},
        "transform": {
            "arrow": "tests.spark.pipeline_functions:inverted",
            "arrow_schema": "number long, part int",
            "sql": "select number, part from records",
        },
        "sink": {"format": "parquet", "path": str(tmp_path / "table")},
    }
    with pytest.raises(Exception, match="ZeroDivisionError"):
        Pipeline.of(given).offline(spark)
    Pipeline.of({**given, "dead_letters": {"path": str(tmp_path / "bad")}}).offline(spark)
    rows = ds.dataset(tmp_path / "table").to_table().to_pylist()
    assert sorted((row["number"], row["part"]) for row in rows) == [(1, 1000), (7, 142), (10, 100)]
    bad = ds.dataset(tmp_path / "bad").to_table().sort_by("offset").to_pylist()
    assert [(row["offset"], row["value"]) for row in bad] == [(1, b"0"), (3, b"0")]
    assert {row["reason"] for row in bad} == {"ZeroDivisionError: integer division or modulo by zero"}


@pytest.mark.timeout(500)
def test_topics_take_rows_totals_and_dead_letters(
    spark: Any, broker: EmbeddedBroker, topic: str, send: Send, tmp_path: Path, read: Any
) -> None:
    send(range(30))
    names = {name: f"{topic}-{name}" for name in ("rows", "totals", "bad")}
    for name in names.values():
        broker.create_topic(name, 1, config={"retention.ms": "-1"})

    def run(name: str, more: Mapping[str, Any]) -> None:
        given = form(broker, topic, tmp_path, "topic", dead_letters={"topic": names["bad"]}, **more)
        given["sink"] = {"format": "topic", "options": {"topic": names[name], "rowIdentity": True}}
        run_online(spark, Pipeline.of(given), tmp_path / name)

    run("rows", {"transform": {"sql": "select key, value.id from records"}})
    closed = {**WINDOW, "watermark": "1 second", "emit": "closed"}
    run("totals", {"transform": {"sql": "select value.*, timestamp from records"}, "window": closed})
    (rows,), (totals,), (bad,) = (read(subscribe=name, includeHeaders="true") for name in names.values())
    assert sorted(row["value"] for row in rows)[:2] == [b'{"key":"k1","id":1}', b'{"key":"k10","id":10}']
    assert len(rows) == 28
    keys = [row["key"] for row in totals]
    assert len(set(keys)) == len(keys)  # each window once, and the last one is still open
    events = sum(json.loads(row["value"])["events"] for row in totals)
    assert 0 < events < 28
    assert len(bad) == 2 * 2
    assert {row["value"] for row in bad} == {b"{broken"}
    headers = {one["key"]: one["value"] for one in bad[0]["headers"]}
    assert headers["ottla-topic"] == topic.encode()
    assert headers["ottla-reason"].startswith(b"not JSON")


@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    ("given", "reading", "is_written_again"),
    [
        ({}, {"kafka.isolation.level": "read_committed"}, False),
        ({"rowIdentity": True}, {"dropRepeatedRows": "true"}, True),
    ],
    ids=["transactions", "row-identity"],
)
def test_repeated_batches_give_topics_totals_and_dead_letters_once(
    spark: Any,
    broker: EmbeddedBroker,
    topic: str,
    send: Send,
    tmp_path: Path,
    read: Any,
    given: dict[str, Any],
    reading: dict[str, str],
    is_written_again: bool,
) -> None:
    """Updates of windows and dead letters, after a driver that died before its last batch counted as done."""
    send(range(30))
    names = [f"{topic}-totals", f"{topic}-bad"]
    for name in names:
        broker.create_topic(name, 2, config={"retention.ms": "-1"})
    more = {"transform": {"sql": "select value.*, timestamp from records"}, "window": WINDOW}
    letters = {"topic": names[1], "options": given}
    pipeline = form(broker, topic, tmp_path, "topic", dead_letters=letters, **more)
    pipeline["sink"] = {"format": "topic", "options": {"topic": names[0], **given}}
    run_online(spark, Pipeline.of(pipeline), tmp_path / "state")
    for state in (tmp_path / "state", tmp_path / "state" / "refused"):
        forget_last_batch(state)
    run_online(spark, Pipeline.of(pipeline), tmp_path / "state")
    totals, bad = ([row for task in read(subscribe=name, **reading) for row in task] for name in names)
    assert len({row["key"] for row in totals}) == len(totals) > 0
    assert sum(json.loads(row["value"])["events"] for row in totals) == 28
    assert [row["value"] for row in bad] == [b"{broken"] * 2
    written = [sum(map(len, read(subscribe=name))) for name in names]
    assert written == [(1 + is_written_again) * len(totals), (1 + is_written_again) * len(bad)]

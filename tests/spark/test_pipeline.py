"""Pipelines: one form, online and offline, the same table; bad records kept apart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from ottla import ConfigError, EmbeddedBroker, Producer
from ottla.spark import Pipeline
from ottla.spark.batch_files import BatchFiles
from ottla.spark.pipeline_form import PipelineForm

FORM = """
[source]
"kafka.bootstrap.servers" = "{bootstrap}"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 40

[decode]
format = "json"
schema = "id long, amount double"

[transform]
sql = '''
    select value.id, value.amount * 2 as doubled, key, date(timestamp) as day
    from records where value.id % 2 = 0
'''
python = "tests.spark.test_pipeline:tagged"

[sink]
format = "parquet"
path = "{path}"
partition_by = ["day"]

[dead_letters]
path = "{bad}"
"""
DAY_MS = 86_400_000


def tagged(rows: Any) -> Any:
    return rows.selectExpr("*", "'tag' as tag")


def rows_of(path: Path) -> Counter[tuple[Any, ...]]:
    table = ds.dataset(path, partitioning="hive").to_table()
    columns = [table.column(name).to_pylist() for name in ("id", "doubled", "key", "tag", "day")]
    return Counter(zip(*columns, strict=True))


def form(broker: EmbeddedBroker, topic: str, root: Path) -> PipelineForm:
    path = root / "pipeline.toml"
    root.mkdir(parents=True, exist_ok=True)
    text = FORM.format(bootstrap=broker.bootstrap, topic=topic, path=root / "table", bad=root / "bad")
    path.write_text(text)
    return PipelineForm.read(path)


@pytest.mark.timeout(280)
def test_online_and_offline_give_the_same_table(
    spark: Any, broker: EmbeddedBroker, topic: str, producer: Producer, tmp_path: Path
) -> None:
    def send(numbers: range) -> None:
        for number in numbers:
            value = b"{broken" if number % 25 == 0 else b'{"id": %d, "amount": 1.5}' % number
            time_ms = (number % 3) * DAY_MS
            producer.send(topic, value, key=b"k%d" % number, partition=number % 3, timestamp_ms=time_ms)
        producer.flush()

    online, offline = (Pipeline(form(broker, topic, tmp_path / name)) for name in ("online", "offline"))
    state = tmp_path / "state"

    def run() -> None:
        query = online.online(spark, state, trigger={"availableNow": True})
        assert query.awaitTermination(250)

    send(range(90))
    run()
    last = max((state / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()  # the driver dies before the last batch counts as done
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    send(range(90, 120))
    run()
    good = [number for number in range(120) if number % 25 and number % 2 == 0]
    found = rows_of(tmp_path / "online" / "table")
    assert sorted(row[0] for row in found.elements()) == good
    offline.offline(spark)
    offline.offline(spark)
    assert rows_of(tmp_path / "offline" / "table") == found
    bad = ds.dataset(tmp_path / "online" / "bad").to_table().to_pylist()
    assert sorted((row["key"], row["value"]) for row in bad) == sorted(
        (f"k{number}", b"{broken") for number in range(0, 120, 25)
    )
    assert all("id long, amount double" in row["reason"] for row in bad)
    # A range replaces the partitions that it has rows for, and no others.
    bounds = {"startingTimestamp": str(DAY_MS), "endingTimestamp": str(2 * DAY_MS)}
    offline.offline(spark, startingOffsetsByTimestampStrategy="latest", **bounds)
    assert rows_of(tmp_path / "offline" / "table") == found


def test_a_repeated_batch_replaces_its_files(tmp_path: Path) -> None:
    for batch_id, names in [(1, ["day=1/a", "day=2/b"]), (10, ["day=1/c"]), (1, ["day=2/d"])]:
        files = BatchFiles(tmp_path, batch_id)
        for name in names:
            path = files.staging / f"{name}.parquet"
            path.parent.mkdir(parents=True)
            path.write_text(name)
        assert files.move_in() == len(names)
    left = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*.parquet")}
    assert left == {
        "day=1/batch-000000000010-00000.parquet": "day=1/c",
        "day=2/batch-000000000001-00000.parquet": "day=2/d",
    }


def test_a_form_tells_what_it_does(broker: EmbeddedBroker, tmp_path: Path) -> None:
    lines = form(broker, "orders", tmp_path).steps()
    assert [line.split()[0] for line in lines] == ["read", "decode", "sql", "python", "write", "refused"]
    assert "maxOffsetsPerTrigger=40" in lines[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sinc": {}}, "did you mean sink"),
        ({"sink": {"format": "parquet"}}, "needs a path"),
        ({"sink": {"format": "topic", "path": "x"}}, "has no path"),
        ({"sink": {"format": "csv"}}, "parquet or topic or console or landing"),
        ({"sink": {"format": "console", "pth": "x"}}, "did you mean path"),
        ({"source": {}}, "is empty"),
        ({"source": "orders"}, "a section"),
        ({"decode": {"format": "json"}}, "schema is what json needs"),
        ({"decode": {"format": "string"}, "dead_letters": {"path": "x"}}, "only json can fail"),
        ({"transform": {"python": "function"}}, "module:function"),
        ({"sink": {"format": "landing", "path": "x"}, "transform": {"sql": "select 1"}}, "is raw"),
    ],
)
def test_wrong_forms_are_refused(change: dict[str, Any], words: str) -> None:
    given = {"source": {"subscribe": "t"}, "sink": {"format": "console"}, **change}
    with pytest.raises(ConfigError, match=words):
        PipelineForm.of(given)


def test_a_file_that_is_no_form_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("[source")
    with pytest.raises(ConfigError, match=r"x\.toml"):
        Pipeline.read(tmp_path / "x.toml")

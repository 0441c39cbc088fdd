"""Raw landing: topics into parquet files, each record once whatever is repeated."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import ottla.spark
from ottla import ConfigError, EmbeddedBroker
from ottla.model.errors import DataLost, StorageError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.landing import land_task, landing
from ottla.spark.landing_files import LandedFile, is_there, landed, within
from ottla.spark.locations import location
from ottla.spark.parquet_file import RawParquetFile
from ottla.spark.range_planner import TaskRange
from ottla.spark.source_options import Mode
from tests.spark.conftest import Filled

Lander = Callable[..., list[dict[str, Any]]]


def values(path: Path) -> Counter[int]:
    table = ds.dataset(path, partitioning="hive", exclude_invalid_files=False).to_table()
    return Counter(int(value) for value in table.column("value").to_pylist())


@pytest.fixture
def lander(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> Lander:
    """Does what a task does, in this process."""

    def run(*ranges: tuple[int, int, int], mode: Mode = Mode.STREAM, **options: str) -> list[dict[str, Any]]:
        given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **options}
        told = landing({"path": str(tmp_path), **given}, mode)
        task = tuple(
            TaskRange(TopicAndPartition(topic, partition), start, end) for partition, start, end in ranges
        )
        return [row for batch in land_task(task, told) for row in batch.to_pylist()]

    return run


def test_a_task_writes_a_file_for_each_range(
    lander: Lander, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(300))
    report = lander((0, 10, 20), (2, 0, 100))
    assert [(row["partition"], row["start"], row["end"], row["rows"]) for row in report] == [
        (0, 10, 20, 10),
        (2, 0, 100, 100),
    ]
    assert values(tmp_path) == Counter([*range(30, 60, 3), *range(2, 300, 3)])
    table = ds.dataset(tmp_path, partitioning="hive").to_table()
    assert set(table.column_names) == {
        "key", "value", "offset", "timestamp", "timestampType", "topic", "partition",
    }  # fmt: skip
    assert table.column("topic").unique().to_pylist() == [topic]


@pytest.mark.parametrize(("different", "has_dictionary"), [(100, True), (60_000, False), (6_000, True)])
def test_keys_get_a_dictionary_if_they_repeat(tmp_path: Path, different: int, has_dictionary: bool) -> None:
    keys = [b"%d" % (number % different) for number in range(60_000)]
    rows = pa.record_batch(
        {"key": pa.array(keys, pa.binary()), "partition": pa.array([3] * 60_000, pa.int32())}
    )
    file = RawParquetFile(tmp_path / "keys.parquet", rows.schema, "snappy")
    file.add(rows)
    file.close()
    written = pq.ParquetFile(tmp_path / "keys.parquet")
    assert written.read() == pa.Table.from_batches([rows])
    key, partition = (written.metadata.row_group(0).column(number) for number in range(2))
    assert key.has_dictionary_page == has_dictionary
    assert partition.has_dictionary_page


def test_a_file_without_rows(tmp_path: Path) -> None:
    schema = pa.schema([("key", pa.binary()), ("offset", pa.int64())])
    RawParquetFile(tmp_path / "none.parquet", schema, "snappy").close()
    assert pq.read_table(tmp_path / "none.parquet") == schema.empty_table()


def test_a_full_disk_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "full.parquet"
    path.symlink_to("/dev/full")
    rows = pa.record_batch({"value": [b"x" * 1000] * 1000})
    file = RawParquetFile(path, rows.schema, "none")
    file.add(rows)
    with pytest.raises(StorageError, match=r"full\.parquet: No space left on device"):
        file.close()
    file.abandon()
    assert not path.is_symlink()


def test_a_repeated_task_leaves_its_files_alone(
    lander: Lander, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(90))
    (first,) = lander((0, 0, 30))
    before = Path(first["path"]).stat().st_mtime_ns
    assert lander((0, 0, 30)) == []
    assert lander((0, 10, 30)) == []  # the log has lost records since, and the file has them
    assert Path(first["path"]).stat().st_mtime_ns == before
    with pytest.raises(ConfigError, match="does not cut a file"):
        lander((0, 20, 30), (0, 20, 40))
    assert values(tmp_path) == Counter(range(0, 90, 3))


def test_what_killed_tasks_have_left_goes_after_a_day(lander: Lander, topic: str, fill: Filled) -> None:
    fill(topic, range(90))
    (first,) = lander((0, 0, 10))
    old, young = (Path(first["path"]).with_name(f".stray.parquet.{name}") for name in ("old", "young"))
    for stray in (old, young):
        stray.touch()
    day_before = old.stat().st_mtime - 90_000
    os.utime(old, (day_before, day_before))
    lander((0, 10, 20))
    assert (old.exists(), young.exists()) == (False, True)


def test_a_bounded_range_takes_the_place_of_what_it_covers(
    lander: Lander, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(90))
    for start, end in [(0, 10), (10, 20), (20, 30)]:
        lander((0, start, end))
    lander((0, 0, 20), mode=Mode.BATCH)
    lander((0, 0, 20), mode=Mode.BATCH)
    place = TopicAndPartition(topic, 0)
    assert [(one.start, one.end) for one in landed(location(tmp_path), place)] == [(0, 20), (20, 30)]
    assert values(tmp_path) == Counter(range(0, 90, 3))
    with pytest.raises(ConfigError, match="offsets 20 to 29"):
        lander((0, 0, 25), mode=Mode.BATCH)


def test_a_task_that_fails_leaves_nothing(
    lander: Lander, broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(90))
    with pytest.raises(DataLost, match="at offset 500"):
        lander((0, 0, 30), (1, 500, 600))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minPartitions": "4"}, "one file for each partition"),
        ({"failOnDataLoss": "false"}, "new checkpoint"),
        ({"compression": "best"}, "snappy or zstd"),
        ({"path": ""}, "path is not set"),
        ({"subscribr": "t"}, "did you mean subscribe"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], words: str) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "path": "x", **options}
    with pytest.raises(ConfigError, match=words):
        landing(given, Mode.STREAM)


def test_what_files_have_in_common() -> None:
    files = [LandedFile(0, 10, "a"), LandedFile(10, 20, "b")]
    place = TopicAndPartition("t", 0)
    assert is_there(files, TaskRange(place, 12, 20))
    assert not is_there(files, TaskRange(place, 5, 15))
    assert within(files, TaskRange(place, 10, 30)) == files[1:]
    assert within(files, TaskRange(place, 20, 30)) == []
    with pytest.raises(ConfigError):
        within(files, TaskRange(place, 5, 30))


@pytest.mark.timeout(280)
def test_spark_lands_a_stream_and_a_range(
    spark: Any, broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    online, offline, state = tmp_path / "online", tmp_path / "offline", tmp_path / "state"

    def stream() -> None:
        query = ottla.spark.land_stream(
            spark,
            {**options, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "60"},
            online,
            state,
            trigger={"availableNow": True},
        )
        assert query.awaitTermination(200)

    fill(topic, range(150))
    stream()
    last = max((state / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()  # the driver dies before the batch counts as done
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    fill(topic, range(150, 180))
    stream()
    assert values(online) == Counter(range(180))
    done = ottla.spark.land(spark, options, offline)
    assert done.rows == 180
    assert len(done.files) == 3
    tables = [spark.read.parquet(str(path)).orderBy("partition", "offset") for path in (online, offline)]
    assert tables[0].collect() == tables[1].collect()
    assert ottla.spark.land(spark, options, online).rows == 180
    assert values(online) == Counter(range(180))

"""format("ottla-log"): segment directories as a table, the right bytes of the right files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ottla import ConfigError, CorruptRecord, EmbeddedBroker, Producer
from ottla.log.segments_on_disk import partitions_in, records_of
from ottla.spark.log_source import LogOptions, log_options, log_tasks

ROWS, TIME_0 = 4000, 1_000_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a broker that is gone: two partitions in segments of 16 kB, and another topic."""
    root = tmp_path_factory.mktemp("kafka")
    with EmbeddedBroker(root) as broker:
        small = {"segment.bytes": "16384", "index.interval.bytes": "1024"}
        broker.create_topic("orders", 2, config=small)
        broker.create_topic("other", 1)
        with Producer(bootstrap_servers=broker.bootstrap, batch_size=1000, linger_ms=0) as producer:
            for number in range(ROWS):
                value = f"{number}".encode()
                producer.send("orders", value, bytes(60), number % 2, TIME_0 + number)
            producer.send("other", b"0", headers=[("a", b"b")])
    return root


def options(root: Path, **more: str) -> LogOptions:
    return log_options({"path": str(root), "subscribe": "orders", **more})


def read(given: LogOptions) -> list[int]:
    values: list[int] = []
    for task in log_tasks(given):
        for piece in task:
            for batch in records_of(piece, has_headers=False):
                values += [int(value) for value in batch.column("value").to_pylist()]
    return sorted(values)


def read_bytes(given: LogOptions) -> int:
    return sum(piece.size for task in log_tasks(given) for piece in task)


def test_everything_is_read_once_however_it_is_cut(data: Path) -> None:
    assert len(partitions_in([str(data)])[-3].segments) > 5
    assert read(options(data)) == list(range(ROWS))
    pieces = log_tasks(options(data, maxBytesPerTask="5000"))
    assert len(pieces) > 20
    assert read(options(data, maxBytesPerTask="5000")) == list(range(ROWS))
    assert len(log_tasks(options(data))) == 1


def test_offsets_choose_the_bytes_that_are_read(data: Path) -> None:
    both = '{"orders":{"0":%d,"1":%d}}'
    given = options(data, startingOffsets=both % (1000, 0), endingOffsets=both % (1100, 50))
    assert read(given) == sorted([*range(2000, 2200, 2), *range(1, 100, 2)])
    assert read_bytes(given) < 0.15 * read_bytes(options(data))


def test_times_choose_them_too(data: Path) -> None:
    given = options(data, startingTimestamp=str(TIME_0 + 1000), endingTimestamp=str(TIME_0 + 1111))
    assert read(given) == list(range(1000, 1111))
    assert read_bytes(given) < 0.15 * read_bytes(options(data))
    assert read(options(data, startingTimestamp=str(TIME_0 + ROWS))) == []
    assert read(options(data, endingTimestamp=str(TIME_0 + 10 * ROWS))) == list(range(ROWS))


def test_without_indexes_it_is_slower_and_the_same(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    for path in [*copy.rglob("*.index"), *copy.rglob("*.timeindex")]:
        path.unlink()
    given = {"startingTimestamp": str(TIME_0 + 1000), "endingTimestamp": str(TIME_0 + 1111)}
    assert read(options(copy, **given)) == list(range(1000, 1111))
    assert read(options(copy / "orders-1")) == list(range(1, ROWS, 2))


def test_a_cut_end_is_left_out_and_damage_is_told(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    last, first = sorted((copy / "orders-0").glob("*.log"))[-1], sorted((copy / "orders-0").glob("*.log"))[0]
    last.write_bytes(last.read_bytes()[:-5])
    got = read(options(copy))
    assert set(got) < set(range(ROWS))
    assert max(set(range(ROWS)) - set(got)) == ROWS - 2
    damaged = bytearray(first.read_bytes())
    damaged[1500] ^= 0xFF
    first.write_bytes(damaged)
    with pytest.raises(CorruptRecord, match=r"orders-0.*\.log, byte"):
        read(options(copy))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"path": "/no/such"}, "no such directory"),
        ({"subscribe": "orders"}, "path is not set"),
        ({"kafka.bootstrap.servers": "x:1", "path": "/"}, "without a broker"),
        ({"startingOffsets": '{"orders":{"0":1}}'}, "name every partition"),
        ({"pth": "x"}, "did you mean path"),
    ],
)
def test_wrong_options_are_refused(data: Path, given: dict[str, str], words: str) -> None:
    if "startingOffsets" in given:
        given = {"path": str(data), "subscribe": "orders", **given}
    with pytest.raises(ConfigError, match=words):
        log_tasks(log_options(given))


def test_a_directory_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no directory such as"):
        partitions_in([str(tmp_path)])


@pytest.mark.timeout(280)
def test_spark_reads_it(spark: Any, data: Path) -> None:
    frame = spark.read.format("ottla-log").option("subscribe", "orders").load(str(data))
    rows = frame.selectExpr("cast(value as string) v", "partition", "offset", "timestamp").collect()
    assert sorted(int(row.v) for row in rows) == list(range(ROWS))
    assert all((row.partition, row.offset) == (int(row.v) % 2, int(row.v) // 2) for row in rows)
    reader = spark.read.format("ottla-log").option("includeHeaders", "true")
    (row,) = reader.option("subscribePattern", "oth.*").load(str(data)).collect()
    assert [(one.key, bytes(one.value)) for one in row.headers] == [("a", b"b")]

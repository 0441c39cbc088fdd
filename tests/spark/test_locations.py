"""Where tables are: a directory and a real S3-compatible server do the same."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from ottla import ConfigError, EmbeddedBroker, StorageError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.hdfs import HdfsDirectory
from ottla.spark.landing import land_task, landing
from ottla.spark.landing_compaction import compact_directory
from ottla.spark.landing_files import directory_of, landed, landed_in
from ottla.spark.locations import Location, check_promises, location, remove_strays
from ottla.spark.object_store import ObjectStore
from ottla.spark.pipeline.aggregates import TotalsTable
from ottla.spark.pipeline.spans import is_overlap, united
from ottla.spark.pipeline.state import PipelineState
from ottla.spark.pipeline.table_files import read_file, write_files
from ottla.spark.pipeline.units import TableUnits, Unit
from ottla.spark.range_planner import TaskRange
from ottla.spark.source_options import Mode
from tests.scale import nightly, sized
from tests.spark.conftest import Filled
from tools.store_servers import BUCKET, HdfsServer

ORDERS = TopicAndPartition("orders", 0)
KINDS = sized(["directory", "s3"], ["directory", "s3", "hdfs", "azure", "gcs"])


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A location of a test's own."""
    if request.param == "directory":
        return str(tmp_path / "table")
    server = request.getfixturevalue(request.param)
    if request.param == "hdfs":
        return f"{server.url}/{tmp_path.name}/table"
    scheme = {"s3": "s3", "azure": "abfs", "gcs": "gs"}[request.param]
    return f"{scheme}://{BUCKET}/{tmp_path.name}/table"


@pytest.fixture
def where(url: str) -> Location:
    return location(url)


def test_files_appear_once_and_change_only_as_expected(where: Location) -> None:
    check_promises(where)
    assert where.list() == []
    assert where.read("a/x") is None
    assert where.create("a/x", b"1")
    assert not where.create("a/x", b"2")
    first = where.read("a/x")
    assert first is not None
    assert first.content == b"1"
    assert where.replace("a/x", b"3", first.version)
    assert not where.replace("a/x", b"4", first.version)
    assert not where.replace("a/x", b"4", None)
    assert where.replace("b%3A/y=1", b"5", None)
    where.put("a/x", b"66")
    scratch = where.scratch("c/z")
    scratch.write_bytes(b"777")
    where.put("c/z", scratch)
    assert not scratch.exists()
    assert [(entry.path, entry.size) for entry in where.list()] == [("a/x", 2), ("b%3A/y=1", 1), ("c/z", 3)]
    assert [entry.path for entry in where.list("a")] == ["a/x"]
    where.move("a/x", "b%3A/y=1")
    where.move("gone", "c/z")
    where.delete(["c/z", "gone"])
    assert [(entry.path, entry.size) for entry in where.list()] == [("b%3A/y=1", 2)]
    remove_strays(where, "b%3A")
    assert len(where.list()) == 1


def test_of_many_that_replace_at_once_one_wins(where: Location) -> None:
    where.put("list", b"0")
    all_have_read = threading.Barrier(8)
    won: list[int] = []

    def add(number: int) -> None:
        mine = location(where.url)
        found = mine.read("list")
        assert found is not None
        all_have_read.wait()
        with mine.lock():
            if mine.replace("list", b"%d" % number, found.version):
                won.append(number)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = where.read("list")
    assert stored is not None
    assert [int(stored.content)] == won


def commit(units: TableUnits, name: str, start: int, ids: list[int]) -> None:
    spans = {ORDERS: [(start, start + len(ids))]}
    staged = units.staging(name)
    batch = pa.RecordBatch.from_pydict({"day": [str(number % 2) for number in ids], "id": ids})
    files = write_files(units.where, staged, ["day"], [batch])

    def decide(there: Any) -> list[Unit]:
        found = [unit for unit in there if is_overlap(spans, unit.spans)]
        if found and not name.startswith("range"):
            raise ConfigError("another writer was faster")
        return found

    with units.settled():
        units.commit(name, spans, staged, files, decide)


def ids(where: Location) -> Counter[int]:
    """What a reader sees that lists the files."""
    files = [entry.path for entry in where.list() if not entry.path.startswith("_")]
    return Counter(number for file in files for number in read_file(where, file)["id"].to_pylist())


def test_units_are_committed_once_whoever_is_overtaken(where: Location) -> None:
    units = TableUnits(where)
    commit(units, "q-0", 0, [0, 1, 2])
    commit(units, "q-1", 3, [3, 4])
    real_replace = type(where).replace
    before = [lambda: commit(TableUnits(location(where.url)), "q-2", 5, [5, 6])]

    def overtaken(self: Any, path: str, content: bytes, version: Any) -> bool:
        if before and not where.is_directory:  # writers of a directory wait for each other
            before.pop()()
        return real_replace(self, path, content, version)

    with patch.object(type(where), "replace", overtaken):
        if where.is_directory:
            before.pop()()
        with pytest.raises(ConfigError, match="another writer was faster"):
            commit(units, "zombie", 5, [5, 6])
    commit(units, "range-1", 0, [10, 11, 12, 13, 14])
    assert ids(where) == Counter([5, 6, 10, 11, 12, 13, 14])
    assert united(unit.spans for unit in units.all()) == {ORDERS: [(0, 7)]}


def test_a_checkpoint_is_read_anywhere(where: Location) -> None:
    where.put("metadata", b'{"id": "1234"}')
    where.put("offsets/0", b'v1\n{}\n{"orders": {"0": 7}}')
    where.put("commits/0", b"v1\n{}")
    state = PipelineState(where.url)
    assert state.query_id() == "1234"
    committed = state.committed()
    assert committed is not None
    assert (committed.batch, committed.offsets) == (0, {ORDERS: 7})
    assert state.pin_schema("id long") == "id long"
    assert state.pin_schema("id int") == "id long"
    assert PipelineState(where.url).schema() == "id long"


def test_totals_replace_totals_anywhere(where: Location) -> None:
    table = TotalsTable(where.url, ("kind",), ("day",))
    table.merge(pa.table({"kind": ["a", "b"], "day": [1, 2], "events": [1, 2]}))
    table.merge(pa.table({"kind": ["a", "c"], "day": [1, 1], "events": [5, 6]}))
    assert read_file(where, "day=1/totals.parquet").to_pylist() == [
        {"kind": "a", "events": 5},
        {"kind": "c", "events": 6},
    ]


def test_raw_records_land_and_are_merged(
    where: Location, broker: EmbeddedBroker, topic: str, fill: Filled
) -> None:
    fill(topic, range(90))
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "path": where.url}
    place = TopicAndPartition(topic, 0)
    for start, end in [(0, 10), (10, 20), (10, 20), (20, 30)]:
        list(land_task((TaskRange(place, start, end),), landing(given, Mode.STREAM)))
    assert [(file.start, file.end) for file in landed(where, place)] == [(0, 10), (10, 20), (20, 30)]
    compact_directory(where, directory_of(place))
    (one,) = landed_in(where, directory_of(place))
    assert (one.start, one.end) == (0, 30)
    values = read_file(where, one.path)["value"].to_pylist()
    assert [int(value) for value in values] == list(range(0, 90, 3))


@nightly("Hadoop takes long to start")
def test_what_a_killed_writer_left_in_hdfs_is_completed(hdfs: HdfsServer, tmp_path: Path) -> None:
    url = f"{hdfs.url}/{tmp_path.name}"
    writer, other = location(url), location(url)
    assert writer.replace("list", b"1", None)
    complete = HdfsDirectory._complete
    waiting: list[Any] = []

    def asleep(self: HdfsDirectory, path: str, pointer: str) -> None:
        if self is writer:
            waiting.append(lambda: complete(self, path, pointer))
        else:
            complete(self, path, pointer)

    for number in (2, 3):  # decided, and asleep before the content is where readers look
        first = other.read("list")
        assert first is not None
        with patch.object(HdfsDirectory, "_complete", asleep):
            assert writer.replace("list", b"%d" % number, first.version)
        assert not other.replace("list", b"late", first.version)
    found = other.read("list")
    assert found is not None
    assert found.content == b"3"
    assert other.replace("list", b"4", found.version)
    for wake in waiting:
        wake()
    now = writer.read("list")
    assert now is not None
    assert now.content == b"4"
    assert [entry.path for entry in other.list()] == ["list"]


@pytest.mark.usefixtures("s3")
def test_a_store_without_conditional_puts_is_refused(tmp_path: Path) -> None:
    where = location(f"s3a://{BUCKET}/{tmp_path.name}")
    real = ObjectStore._put

    def careless(self: ObjectStore, path: str, content: Any, mode: Any) -> bool:
        return real(self, path, content, "overwrite")

    with (
        patch.object(ObjectStore, "_put", careless),
        pytest.raises(ConfigError, match=r"no conditional puts.*If-None-Match"),
    ):
        check_promises(where)
    assert where.list() == []


def test_what_no_table_can_have_is_refused(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="begins with file:, s3:"):
        location("ftp://name/t")
    with pytest.raises(StorageError, match=r"s3://no-such-bucket/t: .*\(NoSuchBucket\)$"):
        check_promises(location("s3://no-such-bucket/t"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StorageError, match=rf"^s3://{BUCKET}/t: .*\(SignatureDoesNotMatch\)$"):
        check_promises(location(f"s3://{BUCKET}/t"))


def test_paths_and_file_urls_are_directories(tmp_path: Path) -> None:
    for text in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
        assert location(text).url == str(tmp_path)

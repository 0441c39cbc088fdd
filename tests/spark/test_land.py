"""`ottla land`: topics into tables without Spark, each record once, however often the writer is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import ottla
from ottla import ConfigError, EmbeddedBroker, TopicAndPartition
from ottla.cli.main import main
from ottla.spark.lander import Lander
from ottla.spark.landing import begun_after_files
from ottla.spark.locations import location
from ottla.spark.raw_tables import raw_table
from tests.naming import name_after_test
from tests.scale import SEED, SOAK, nightly, sized
from tests.spark import land_writer, profile_program
from tests.spark.conftest import Filled
from tests.spark.pipeline_runs import table_of
from tools.peer_cache import Unavailable, boto3_packages
from tools.store_servers import BUCKET, S3Server

KINDS = ["parquet", "delta", "iceberg"]
KILLS = 100 if SOAK else 10


def offsets_in(table: pa.Table) -> Counter[tuple[int, int]]:
    return Counter(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def all_offsets(count: int, partitions: int = 3) -> Counter[tuple[int, int]]:
    return Counter((number % partitions, number // partitions) for number in range(count))


def lander(broker: EmbeddedBroker, topic: str, kind: str, url: str, **more: Any) -> Lander:
    source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return Lander(source, raw_table(kind, url, {}, has_headers=False), **more)


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_lands_a_topic_and_goes_on(
    kind: str,
    broker: EmbeddedBroker,
    topic: str,
    fill: Filled,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = str(tmp_path / "table")
    words = ["land", topic, "--to", url, "--format", kind, "-b", broker.bootstrap]
    for run in range(2):
        fill(topic, range(150 * run, 150 * run + 150))
        assert main([*words, *(["--headers"] if run else [])] if kind != "parquet" else words) == 0
        assert "150 records" in capsys.readouterr().out
        found = table_of(url, kind)
        assert offsets_in(found) == all_offsets(150 * run + 150)
        assert set(map(int, found["value"].to_pylist())) == set(range(150 * run + 150))
        assert found["topic"].unique().to_pylist() == [topic]
    assert main(words) == 0
    assert "0 records" in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_writers_one_is_refused(
    kind: str, broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(90))
    url = str(tmp_path / "table")
    sleeper = lander(broker, topic, kind, url, batch_bytes=300).batches()
    next(sleeper)
    for _ in lander(broker, topic, kind, url).batches():
        pass
    with pytest.raises(ConfigError, match="another writer"):
        for _ in sleeper:
            pass
    assert offsets_in(table_of(url, kind)) == all_offsets(90)


def test_files_of_a_delta_table_say_what_they_hold(
    broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(90))
    url = str(tmp_path / "table")
    list(lander(broker, topic, "delta", url).batches())
    (file,) = pa.table(DeltaTable(url).get_add_actions(flatten=True)).to_pylist()
    assert (file["num_records"], file["min.offset"], file["max.offset"]) == (90, 0, 29)
    assert (file["min.topic"], file["max.partition"]) == (topic, 2)
    assert (file["min.timestamp"].timestamp(), file["max.timestamp"].timestamp()) == (1000, 1089)
    late = DeltaTable(url).to_pyarrow_table(filters=[("offset", ">", 28)])
    assert sorted(map(int, late["value"].to_pylist())) == [87, 88, 89]


def test_a_delta_table_of_another_shape_is_refused(
    broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(3))
    for name, rows, by in (
        ("by day", {"day": ["mon"], "n": [1]}, ["day"]),
        ("other", {"value": ["text"]}, None),
    ):
        url = str(tmp_path / name)
        write_deltalake(url, pa.table(rows), partition_by=by)
        with pytest.raises(ConfigError, match=r"partitioned by day|value is .*string.*, not .*binary"):
            list(lander(broker, topic, "delta", url).batches())


def test_a_stream_of_spark_begins_where_the_files_end(
    broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(90))
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    where, state = location(tmp_path / "table"), tmp_path / "state"
    assert begun_after_files(options, where, state) == options
    list(lander(broker, topic, "parquet", where.url).batches())
    begun = begun_after_files({**options, "compression": "zstd"}, where, state)
    assert json.loads(begun["startingOffsets"]) == {topic: {"0": 30, "1": 30, "2": 30}}
    location(state).put("commits/0", b"v1")
    location(state).put("offsets/0", b'v1\n{}\n{"t": {"0": 7}}')
    assert begun_after_files(options, where, state) == options


@pytest.mark.parametrize("store", sized(["s3"], ["s3", "gcs", "hdfs"]))
def test_a_topic_lands_in_a_store(
    store: str,
    broker: EmbeddedBroker,
    topic: str,
    fill: Filled,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    server = request.getfixturevalue(store)
    root = server.url if store == "hdfs" else f"{'gs' if store == 'gcs' else store}://{BUCKET}"
    fill(topic, range(60))
    for kind in ("parquet", "iceberg") if store == "s3" else KINDS:
        url = f"{root}/{tmp_path.name}/{kind}"
        landed = sum(batch.records for batch in lander(broker, topic, kind, url, batch_bytes=500).batches())
        assert landed == 60
        again = list(lander(broker, topic, kind, url).batches())
        assert again == []


@nightly("boto3 is 15 MB")
def test_keys_of_a_profile(
    s3_server: S3Server, broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    try:
        packages = boto3_packages()
    except Unavailable as error:
        pytest.skip(str(error))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= s3_server.environment
    keys = {name: environment.pop(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    lines = ["[shop]", *(f"{name.lower()} = {value}" for name, value in keys.items())]
    (tmp_path / "credentials").write_text("\n".join(lines))
    environment |= {"AWS_PROFILE": "shop", "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")}
    environment["PYTHONPATH"] = f"{Path(__file__).parents[2]}{os.pathsep}{packages}"
    fill(topic, range(60))
    url = f"s3://{BUCKET}/{tmp_path.name}"
    command = [sys.executable, "-m", profile_program.__name__, broker.bootstrap, topic, url, *KINDS]
    said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
    assert json.loads(said) == {kind: [60, 0] for kind in KINDS}
    environment["AWS_PROFILE"] = "nobody"
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "AWS_PROFILE=nobody: The config profile (nobody) could not be found" in ended.stderr


def test_a_topic_that_was_made_anew_is_refused(
    broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(90))
    url = str(tmp_path / "table")
    list(lander(broker, topic, "iceberg", url).batches())
    table = raw_table("iceberg", url, {}, has_headers=False)
    assert table.ends([TopicAndPartition(topic, 0)]) == {TopicAndPartition(topic, 0): 30}
    broker.delete_topic(topic)
    broker.create_topic(topic, 3)
    with pytest.raises(ConfigError, match="made anew"):
        list(lander(broker, topic, "iceberg", url).batches())


class Writers:
    """The process whose children land, and are killed."""

    def __init__(self, *arguments: str) -> None:
        root = str(Path(ottla.__file__).parents[1])
        self._process = subprocess.Popen(
            [sys.executable, land_writer.__file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": root},
        )

    def run(self, kill_after_s: float | None) -> int:
        """Let a child land, and kill it after a time; its exit status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("land\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        if kill_after_s is not None:
            time.sleep(kill_after_s)  # the moment of the kill is what is tried
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


@pytest.mark.timeout(280 if not SOAK else 3000)
@pytest.mark.parametrize("kind", KINDS)
def test_every_record_is_there_once_however_often_the_writer_is_killed(
    kind: str, broker: EmbeddedBroker, fill: Filled, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    topic = name_after_test(request)
    broker.create_topic(topic, 3, config={"retention.ms": "-1"})
    url = str(tmp_path / "table")
    random = Random(SEED)
    writers = Writers(broker.bootstrap, topic, kind, url)
    written, kills = 0, 0
    try:
        for _ in range(2):  # the second one need not wait for imports
            fill(topic, range(written, written + 600))
            written += 600
            started = time.monotonic()
            assert writers.run(None) == 0
            usual_s = time.monotonic() - started
        while kills < KILLS:
            fill(topic, range(written, written + 600))
            written += 600
            kills += writers.run(random.uniform(0, usual_s)) == signal.SIGKILL
        assert writers.run(None) == 0
    finally:
        writers.close()
    assert offsets_in(table_of(url, kind)) == all_offsets(written)

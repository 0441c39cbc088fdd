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

import ottla
from ottla import Admin, ConfigError, EmbeddedBroker, Producer, TopicAndPartition
from ottla.admin import NewPartitions
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_table_begins_at_the_end_of_the_log_and_keeps_that_start(
    kind: str, broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(60))
    url = str(tmp_path / "table")
    latest = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "latest"}
    assert list(Lander(latest, raw_table(kind, url, {}, has_headers=False)).batches()) == []
    fill(topic, range(60, 90))  # after the first writer, which has had no records
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_partitions(NewPartitions(topic, 4))
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send(topic, b"new", partition=3)
    landed = Lander(latest, raw_table(kind, url, {}, has_headers=False)).batches()
    assert sum(batch.records for batch in landed) == 31
    wanted = all_offsets(90) - all_offsets(60)
    assert offsets_in(table_of(url, kind)) == wanted + Counter([(3, 0)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_start_that_the_log_does_not_have_is_refused(
    kind: str, broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(90))
    for start, ends in ((31, 30), (0, 30)):
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            first = admin.delete_records({TopicAndPartition(topic, 0): 5})[TopicAndPartition(topic, 0)]
        source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
        source["startingOffsets"] = json.dumps({topic: {"0": start, "1": 7, "2": 7}})
        table = raw_table(kind, str(tmp_path / "table"), {}, has_headers=False)
        words = f"cannot begin at offset {start}: its log has those from {first} to {ends}"
        with pytest.raises(ConfigError, match=words):
            list(Lander(source, table).batches())
        assert table.ends([TopicAndPartition(topic, 1)]) == {}


@pytest.mark.parametrize("late_ms", [1_700_000_000_000_000, 10**16])
@pytest.mark.parametrize("kind", KINDS)
def test_records_of_any_year_land(
    kind: str,
    late_ms: int,
    broker: EmbeddedBroker,
    topic: str,
    fill: Filled,
    producer: Producer,
    tmp_path: Path,
) -> None:
    """One that takes microseconds for milliseconds writes in the year 55,840; later times do not fit."""
    fill(topic, range(3))
    producer.send(topic, b"late", partition=0, timestamp_ms=late_ms).result(60)
    url = str(tmp_path / "table")
    list(lander(broker, topic, kind, url).batches())
    found = table_of(url, kind)
    assert sorted(found["value"].to_pylist()) == [b"0", b"1", b"2", b"late"]
    times = dict(
        zip(found["value"].to_pylist(), found["timestamp"].cast(pa.int64()).to_pylist(), strict=True)
    )
    assert times == {
        **{b"%d" % number: 1_000_000 * (1000 + number) for number in range(3)},
        b"late": 1000 * late_ms if 1000 * late_ms < 1 << 63 else None,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_the_log_has_lost_end_a_run_unless_they_may_be_skipped(
    kind: str,
    broker: EmbeddedBroker,
    topic: str,
    fill: Filled,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["land", topic, "--to", str(tmp_path / "table"), "--format", kind, "-b", broker.bootstrap]
    fill(topic, range(30))
    assert main(words) == 0
    fill(topic, range(30, 90))
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.delete_records({TopicAndPartition(topic, 0): 20})
    assert main(words) == 1
    assert f"{topic}-0 at offset 10: the log does not have it any more" in (said := capsys.readouterr().err)
    assert "use --skip-lost" in said
    assert main([*words, "--skip-lost"]) == 0
    lost = Counter((0, offset) for offset in range(10, 20))
    assert offsets_in(table_of(tmp_path / "table", kind)) == all_offsets(90) - lost


def test_an_error_of_a_library_is_a_line(
    broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(topic, range(3))
    for kind, file in (
        ("delta", "_delta_log/00000000000000000000.json"),
        ("iceberg", "metadata/v1.metadata.json"),
    ):
        url = tmp_path / kind
        words = ["land", topic, "--to", str(url), "--format", kind, "-b", broker.bootstrap]
        assert main(words) == 0
        for path in url.rglob("*.metadata.json"):
            path.write_text("{")
        (url / file).write_text('{"protocol": 1}')
        assert main(words) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("ottla: ")


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

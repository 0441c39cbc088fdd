"""`ottla pipeline` as its users have it: a process that is stopped and goes on, and what others see of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

import ottla.spark
from ottla import EmbeddedBroker, Producer
from ottla.console.server import ConsoleServer
from ottla.model.errors import ConfigError
from tests.cli.kafka.conftest import ours
from tests.console.visitor import Visitor
from tests.scale import nightly
from tests.waiting import wait_for

WAIT_S = 200
FORM = """
checkpoint = "{root}/state"

[source]
bootstrap = "{bootstrap}"
topics = ["orders"]
start = "earliest"

[decode]
format = "json"
schema = "id long"

[transform]
sql = "select value.id, offset from records"

[sink]
format = "parquet"
path = "{root}/table"

[dead_letters]
path = "{root}/bad"
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        one.create_topic("orders", 2)
        yield one


@pytest.fixture
def file(broker: EmbeddedBroker, tmp_path: Path) -> Path:
    path = tmp_path / "orders.toml"
    path.write_text(FORM.format(root=tmp_path, bootstrap=broker.bootstrap))
    return path


def test_what_is_not_installed_is_one_line(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = ("pipeline", "run", str(file), "--online", "--available-now")
    with monkeypatch.context() as patched:
        patched.delenv("JAVA_HOME", raising=False)
        patched.setenv("PATH", str(tmp_path))
        for call in (ottla.spark.session, lambda: ottla.spark.Pipeline):
            with pytest.raises(
                ConfigError, match="Spark runs on Java and there is none here: install Java 17"
            ):
                call()
        assert ours(*line).complaints.startswith("ottla: Spark runs on Java and there is none here")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    missing = "PySpark is not installed: pip install 'ottla[spark]'"
    for name in ("session", "land"):
        with pytest.raises(ConfigError) as raised:
            getattr(ottla.spark, name)()
        assert str(raised.value) == missing
    assert ours(*line) == (1, "", f"ottla: {missing}\n")
    told = json.loads(ours(*line, "--format", "json").printed)
    assert told["error"] == {"kind": "ConfigError", "message": missing}


def send(broker: EmbeddedBroker, numbers: range) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in numbers:
            producer.send("orders", b'{"id": %d}' % number, partition=number % 2)


def command(*words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ottla", "pipeline", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def offsets(file: Path) -> list[tuple[int, int, int]]:
    told = json.loads(ours("pipeline", "status", str(file), "--format", "json").printed)
    return [(row["partition"], row["offset"], row["lag"]) for row in told["rows"]]


def console_page(broker: EmbeddedBroker, *pipelines: Path) -> str:
    """What the console shows of pipelines."""
    settings = {"bootstrap.servers": broker.bootstrap}
    with ConsoleServer(settings, pipelines=[str(path) for path in pipelines]) as console:
        console.start()
        status, text, *_ = Visitor(console.url).ask("GET", "/pipelines")
    assert status == 200, text
    return str(text)


def wait_for_offsets(file: Path, wanted: list[tuple[int, int, int]], process: subprocess.Popen[str]) -> None:
    def are_reached() -> bool:
        assert process.poll() is None, process.communicate()
        return offsets(file) == wanted

    wait_for(are_reached, lambda: f"{wanted}, not {offsets(file)}", WAIT_S, pause=0.2)


@pytest.mark.timeout(500)
def test_a_stream_is_stopped_and_goes_on(broker: EmbeddedBroker, file: Path, tmp_path: Path) -> None:
    send(broker, range(10))
    check = command("run", file, "--dry-run", "--sample", "1", "--master", "local[1]")
    plan, errors = check.communicate(timeout=WAIT_S)
    assert check.returncode == 0, errors
    assert plan.splitlines()[-2:] == [
        "orders          0     0   5        5",
        "orders          1     0   5        5",
    ]
    assert "decode   value as json id long" in plan
    assert "sql      gives struct<id:bigint,offset:bigint>" in plan
    assert "row      {'id': " in plan
    assert ours("pipeline", "status", str(file)).code == 1

    words = ("--trigger", "100ms", "--prometheus", "0", "--set", "spark.ui.port=0")
    running = command("run", file, "--master", "local[2]", *words)
    wait_for_offsets(file, [(0, 5, 0), (1, 5, 0)], running)
    send(broker, range(10, 14))
    wait_for_offsets(file, [(0, 7, 0), (1, 7, 0)], running)
    assert running.stdout is not None
    with urlopen(running.stdout.readline().strip()) as scrape:
        assert 'ottla_pipeline_lag_records{topic="orders",partition="0"} 0.0' in scrape.read().decode()
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: Spark's own processes get it, too
    output, errors = running.communicate(timeout=WAIT_S)
    assert running.returncode == 0, errors
    assert "\r" not in errors  # no progress where nobody watches
    assert "Spark's pages: http://127.0.0.1:" in errors
    assert output.splitlines()[0].split() == ["TOPIC", "PARTITION", "OFFSET"]

    watching = command("status", file, "--watch", "0.1")
    assert watching.stdout is not None
    assert "  lag 0" in watching.stdout.readline()
    watching.kill()
    watching.communicate()

    send(broker, range(14, 20))
    assert offsets(file) == [(0, 7, 3), (1, 7, 3)]
    page = console_page(broker, file, tmp_path / "state")
    assert page.count("<td>orders-1</td>") == 2
    assert "<b>6</b><span>records behind</span>" in page
    assert f"Dead letters go to <code>parquet {tmp_path}/bad</code>" in page
    batches = ours("pipeline", "status", str(tmp_path / "state"), "--batches", "5", "--format", "tsv").printed
    assert batches.splitlines()[0] == "batch\tat\trecords\tseconds\trecords_per_second"
    assert sum(int(line.split("\t")[2]) for line in batches.splitlines()[1:]) == 14

    ended = command("run", file, "--master", "local[2]", "--available-now", "--format", "json")
    output, errors = ended.communicate(timeout=WAIT_S)
    assert ended.returncode == 0, errors
    assert [row["offset"] for row in json.loads(output)["rows"]] == [10, 10]
    assert sorted(ds.dataset(tmp_path / "table").to_table().column("id").to_pylist()) == list(range(20))


def test_what_is_wrong_is_told_in_a_line(file: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[sinc]\nformat = 'console'\n")
    found = ours("pipeline", "run", str(wrong))
    assert (found.code, found.printed) == (1, "")
    assert "[sink] format=''" in found.complaints
    told = json.loads(ours("pipeline", "status", str(tmp_path), "--format", "json").printed)
    assert told["error"]["message"] == f"{tmp_path}: no batch is done yet"
    for words in (
        ["--from", "2026-01-31"],
        ["--offline", "--trigger", "5s"],
        ["--available-now", "--trigger", "5s"],
        ["--trigger", "soon"],
    ):
        with pytest.raises(SystemExit) as raised:
            ours("pipeline", "run", str(file), *words)
        assert raised.value.code == 2


@nightly("one more driver; tests/spark/test_causes.py has the causes")
@pytest.mark.timeout(500)
def test_a_failed_stream_tells_its_cause_and_no_trace(broker: EmbeddedBroker, tmp_path: Path) -> None:
    broker.create_topic("broken", 1)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("broken", b'{"id": 1')
    strict = FORM.partition("[dead_letters]")[0].replace("orders", "broken")
    file = tmp_path / "strict.toml"
    file.write_text(strict.format(root=tmp_path, bootstrap=broker.bootstrap))
    process = command("run", file, "--master", "local[1]", "--available-now")
    _, told = process.communicate(timeout=WAIT_S)
    assert process.returncode == 1
    assert told.splitlines()[-1].startswith("ottla: broken-0 at offset 0: not JSON")
    assert "Traceback" not in told
    assert "\tat " not in told


def test_a_range_is_told_before_it_is_read(broker: EmbeddedBroker, file: Path) -> None:
    words = ["--offline", "--dry-run", "--no-spark", "--format", "tsv"]
    words += ["--from", '{"orders": {"0": 1, "1": 0}}']
    found = ours("pipeline", "run", str(file), *words, "--to", '{"orders": {"0": 2, "1": 0}}')
    assert found.printed == "topic\tpartition\tfrom\tto\trecords\norders\t0\t1\t2\t1\n"
    assert "a time (2026-01-31" in ours("pipeline", "run", str(file), *words[:3], "--from", "soon").complaints


@nightly("one more driver; tests/spark decodes Avro in the session of the tests")
@pytest.mark.timeout(500)
def test_avro_of_a_registry_over_a_range(broker: EmbeddedBroker, tmp_path: Path) -> None:
    broker.create_topic("avro", 1)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(4):
            producer.send("avro", b"\0\0\0\0\1" + bytes([2 * number, 2]) + b"x")
        producer.send("avro", b"\0\0\0\0\1\1")  # ends where the text is to begin
    (tmp_path / "pipeline.avsc").write_text(
        '{"type": "record", "name": "order", "fields":'
        ' [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}]}'
    )
    file = tmp_path / "avro.toml"
    file.write_text(f"""
        [source]
        bootstrap = "{broker.bootstrap}"
        topics = "avro"
        [decode]
        format = "avro"
        schema_file = "{tmp_path}/pipeline.avsc"
        skip_bytes = 5
        [transform]
        sql = "select value.*, topic, partition, offset from records"
        [sink]
        format = "delta"
        path = "{tmp_path}/table"
        [dead_letters]
        path = "{tmp_path}/refused"
    """)
    words = ("--offline", "--master", "local[1]", "--format", "tsv")
    output, errors = (ended := command("run", file, *words)).communicate(timeout=WAIT_S)
    assert ended.returncode == 0, errors
    assert output == "topic\tpartition\tfrom\tto\trecords\navro\t0\t0\t5\t5\n"
    rows = DeltaTable(tmp_path / "table").to_pyarrow_table().sort_by("offset").to_pylist()
    assert [(row["id"], row["text"]) for row in rows] == [(number, "x") for number in range(4)]
    (refused,) = DeltaTable(tmp_path / "refused").to_pyarrow_table().to_pylist()
    assert refused["offset"] == 4
    assert "it ends in the middle of a field" in refused["reason"]

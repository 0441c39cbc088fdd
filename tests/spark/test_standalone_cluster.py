"""A Spark standalone cluster of two workers, from the same pip install; its executors are killed."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyspark
import pytest

import ottla
from ottla import EmbeddedBroker
from ottla.spark.iceberg import IcebergTable
from ottla.spark.locations import location
from ottla.spark.pipeline.table_files import read_file
from ottla.spark.session import worker_python
from tests.scale import nightly
from tests.spark import cluster_program
from tests.spark.conftest import Filled, Reads, values
from tests.spark.java_options import java_options
from tests.spark.process_tree import below, kill, kill_with_all_below
from tests.waiting import wait_for
from tools.store_servers import BUCKET, S3Server

HOME = Path(pyspark.__file__).parent
ENVIRONMENT = {
    "SPARK_HOME": str(HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "192m",
    "SPARK_DAEMON_JAVA_OPTS": shlex.join(java_options()),
    "PYSPARK_DRIVER_PYTHON": sys.executable,
}
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
RECORDS = 210
DEADLINE_S = 500

pytestmark = nightly("a cluster of five JVMs")


class Cluster:
    """A master, two workers with a core each, and what is submitted to them."""

    def __init__(self, place: Path, stack: ExitStack, environment: Mapping[str, str]) -> None:
        self._place, self._stack = place, stack
        # On a real cluster, a path that is there on every node.
        python = {"PYSPARK_PYTHON": worker_python()}
        self._environment = {**os.environ, **ENVIRONMENT, **python, **environment}
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.url = f"spark://127.0.0.1:{listener.getsockname()[1]}"
        host, port = self.url.removeprefix("spark://").split(":")
        self._start("master.Master", "--host", host, "--port", port, "--webui-port", "0")
        self.workers = [self._worker(number) for number in range(2)]

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        where = str(self._place / f"worker-{number}")
        sizes = ("--cores", "1", "--memory", "600m", "--work-dir", where)
        return self._start("worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", *sizes, self.url)

    def _start(self, role: str, *arguments: str) -> subprocess.Popen[bytes]:
        return self._run([str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *arguments])

    def submit(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        settings = [text for name, value in SETTINGS.items() for text in ("--conf", f"{name}={value}")]
        command = [str(HOME / "bin" / "spark-submit"), "--master", self.url, *settings]
        return self._run([*command, program, *arguments])

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self._place / "said.txt").open("ab") as said:
            process = subprocess.Popen(command, env=self._environment, stdout=said, stderr=said)
        self._stack.callback(process.wait)
        self._stack.callback(kill_with_all_below, process.pid)
        return process

    def executors(self) -> list[int]:
        """The processes of the executors that there are now."""
        trees = [below(worker.pid) for worker in self.workers]
        return [pid for tree in trees for pid, command in tree.items() if "ExecutorBackend" in command]

    def said(self) -> str:
        """The last that anybody has printed."""
        return (self._place / "said.txt").read_text()[-3000:]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("cluster"), stack, s3_server.environment)


@pytest.mark.timeout(DEADLINE_S + 40)
def test_a_program_goes_on_when_executors_are_killed(
    cluster: Cluster, broker: EmbeddedBroker, topic: str, fill: Filled, read: Reads, tmp_path: Path
) -> None:
    fill(topic, range(RECORDS))
    for name in ("copy", "once"):
        broker.create_topic(name, 2)
    program = cluster.submit(cluster_program.__file__, broker.bootstrap, topic, "copy", "once", str(tmp_path))
    deadline = time.monotonic() + DEADLINE_S
    for stream in ("state", "once"):
        third = tmp_path / stream / "offsets" / "3"
        wait_for(lambda third=third: program.poll() is not None or third.exists(), cluster.said, DEADLINE_S)
        assert program.poll() is None, cluster.said()
        kill(wait_for(cluster.executors)[0])
    assert program.wait(deadline - time.monotonic()) == 0, cluster.said()
    wanted = Counter(range(RECORDS))
    assert Counter(values(read(subscribe="copy"))) == wanted
    committed = {"kafka.isolation.level": "read_committed"}
    assert Counter(values(read(subscribe="once", **committed))) == wanted
    landed = ds.dataset(tmp_path / "landed", partitioning="hive").to_table(columns=["value"])
    assert Counter(int(value) for value in landed.column("value").to_pylist()) == wanted


PIPELINE = """
checkpoint = "{place}/state"
[source]
bootstrap = "{bootstrap}"
topics = ["{topic}"]
start = "earliest"
[decode]
format = "string"
[sink]
format = "parquet"
path = "{place}/table"
"""


@pytest.mark.timeout(DEADLINE_S + 40)
def test_a_pipeline_is_submitted_as_the_page_says(
    cluster: Cluster, broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(RECORDS))
    form = tmp_path / "pipeline.toml"
    form.write_text(PIPELINE.format(place=tmp_path, bootstrap=broker.bootstrap, topic=topic))
    program = str(Path(ottla.__file__).with_name("__main__.py"))
    pipeline = cluster.submit(program, "pipeline", "run", str(form), "--available-now")
    assert pipeline.wait(DEADLINE_S) == 0, cluster.said()
    table = ds.dataset(tmp_path / "table").to_table(columns=["value"])
    assert Counter(map(int, table.column("value").to_pylist())) == Counter(range(RECORDS))


TO_STORES = """
checkpoint = "{place}/state"
[source]
bootstrap = "{bootstrap}"
topics = ["{topic}"]
start = "earliest"
maxOffsetsPerTrigger = 60
[[sink]]
format = "parquet"
path = "{url}/parquet"
compact_after = 2
[[sink]]
format = "iceberg"
path = "{url}/iceberg"
"""


@pytest.mark.timeout(DEADLINE_S + 40)
def test_workers_that_share_no_directory_write_to_a_store(
    cluster: Cluster, s3: S3Server, broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    """Only the driver has the checkpoint's directory; a killed executor's tasks are repeated by the other."""
    fill(topic, range(RECORDS))
    url = f"s3://{BUCKET}/{tmp_path.name}"
    form = tmp_path / "pipeline.toml"
    form.write_text(TO_STORES.format(place=tmp_path, bootstrap=broker.bootstrap, topic=topic, url=url))
    program = str(Path(ottla.__file__).with_name("__main__.py"))
    pipeline = cluster.submit(program, "pipeline", "run", str(form), "--available-now")
    second = tmp_path / "state" / "offsets" / "1"
    wait_for(lambda: pipeline.poll() is not None or second.exists(), cluster.said, DEADLINE_S)
    assert pipeline.poll() is None, cluster.said()
    kill(wait_for(cluster.executors)[0])
    assert pipeline.wait(DEADLINE_S) == 0, cluster.said()
    where = location(f"{url}/parquet")
    files = [entry.path for entry in where.list() if not entry.path.startswith("_")]
    found = [int(value) for file in files for value in read_file(where, file)["value"].to_pylist()]
    assert Counter(found) == Counter(range(RECORDS))
    table: Any = IcebergTable(f"{url}/iceberg")._named.load()
    assert Counter(map(int, table.scan().to_arrow()["value"].to_pylist())) == Counter(range(RECORDS))

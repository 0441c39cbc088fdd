"""How Spark's Java processes of the suite start: quickly, from an archive of its classes.

A driver needs 7 CPU seconds to its first rows instead of 15, and the suite starts dozens of them. The archive
is in the virtual environment, since it fits only the jars there. `python -m tests.spark.java_options` makes
it; `make test` does that in the background if it is missing. What starts before it is there starts slowly.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import ottla.spark
from ottla import EmbeddedBroker, Producer
from tools.java_process import QUICK_START, ArchiveWriter, archive_of, read_options
from tools.peer_cache import Unavailable

DRIVER_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The environment variable with the Java options of every driver."""
_HOME = Path(sys.prefix) / "spark"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    # Spark compiles each query to Java code. That pays for large tables only.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def set_environment() -> None:
    """Set the variables that all Spark processes below this one inherit."""
    # Java takes no archive if a directory with files is on the class path, and Spark's settings directory is.
    settings = _HOME / "conf"
    settings.mkdir(parents=True, exist_ok=True)
    os.environ["SPARK_CONF_DIR"] = str(settings)
    os.environ[DRIVER_OPTIONS] = _driver_options(java_options())


def java_options() -> list[str]:
    """Return the options of a driver, an executor, a master or a worker."""
    try:
        return [*QUICK_START, *read_options(archive_of(_HOME))]
    except Unavailable:  # without Java there is no Spark either
        return []


def start_archive() -> subprocess.Popen[bytes] | None:
    """Start to make the archive if Spark can run here and there is none."""
    try:
        if find_spec("pyspark") is None or archive_of(_HOME).exists():
            return None
    except Unavailable:
        return None
    command = [sys.executable, "-m", "tests.spark.java_options"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def end(process: subprocess.Popen[bytes]) -> None:
    """End what `start_archive` started; its Java ends with it."""
    process.kill()
    process.wait()


def _driver_options(options: Sequence[str]) -> str:
    settings = SETTINGS | {"spark.executor.extraJavaOptions": shlex.join(java_options())}
    return shlex.join([*options, *(f"-D{name}={value}" for name, value in settings.items())])


def _make_archive() -> None:
    """Run what most tests run: a batch, and a stream to files, through SQL."""
    set_environment()
    archive = ArchiveWriter(archive_of(_HOME))
    os.environ[DRIVER_OPTIONS] = _driver_options([*QUICK_START, *archive.options])
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as scratch:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("t", b'{"a": 1}')
        spark = ottla.spark.session("class archive", "local[2]", spark_ui_enabled="false")
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "t"}
        batch = spark.read.format("ottla").options(**options).load()
        batch.selectExpr("from_json(cast(value as string), 'a int').a as a").groupBy("a").count().collect()
        stream = spark.readStream.format("ottla").options(startingOffsets="earliest", **options).load()
        query = stream.writeStream.format("parquet").option("checkpointLocation", f"{scratch}/checkpoint")
        query.trigger(availableNow=True).start(f"{scratch}/table").awaitTermination()
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        java = gateway.proc
        spark.stop()
        java.stdin.close()  # so ends the Java process, which then writes the archive
        archive.keep(is_whole=java.wait() == 0)


if __name__ == "__main__":
    _make_archive()

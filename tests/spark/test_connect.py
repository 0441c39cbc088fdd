"""Pipelines through Spark Connect: PySpark's client, and Spark's own server behind its port."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla import EmbeddedBroker, Producer
from tests.scale import nightly
from tools.peer_cache import Unavailable, spark_connect_packages

ROOT = Path(__file__).parents[2]


@nightly("Spark's server beside the session of the tests")
@pytest.mark.timeout(400)
def test_pipelines_run_through_spark_connect(
    broker: EmbeddedBroker, producer: Producer, topic: str, tmp_path: Path
) -> None:
    try:
        packages = spark_connect_packages()
    except Unavailable as error:
        pytest.skip(str(error))
    for number in (1, 0, 10, 4, 5, 2, 7, 8, 20):
        producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1000)
    producer.flush()
    command = [sys.executable, "-m", "tests.spark.connect_program", broker.bootstrap, topic, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{packages}"}
    environment.pop("PYSPARK_PYTHON", None)  # that of the session of this process
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=390, check=False
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["problems"] == []
    assert sorted(row["number"] for row in told["rows"]) == [1, 2, 4, 5, 7, 8, 10, 20]
    assert (told["bad"], told["rows batches"], told["rows lag"]) == (1, 3, [0, 0, 0])
    assert told["landed"] == [9, 9, 1, 9]
    assert sorted((row["odd"], row["events"]) for row in told["totals"]) == [(0, 6), (1, 3)]

"""Kafka's own tool reads the log of transactions."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ottla import EmbeddedBroker, Producer
from ottla.broker.coordination.led_partitions import partition_for
from ottla.model.topic_partition import TRANSACTIONS_TOPIC
from tests.waiting import PATIENCE_S
from tools.peer_cache import KAFKA_4, Unavailable, kafka_libs, program


def dumped(path: Path) -> list[str]:
    """The lines that Kafka's DumpLogSegments prints."""
    try:
        libs = f"{kafka_libs(KAFKA_4)}{os.sep}*"
        command = [program("java"), "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", libs]
    except Unavailable as reason:
        pytest.skip(str(reason))
    command += ["org.apache.kafka.tools.DumpLogSegments", "--transaction-log-decoder", "--files", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_kafkas_dump_tool_reads_the_transaction_log(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("t")
        one = Producer(bootstrap_servers=broker.bootstrap, transactional_id="x")
        with one as producer, producer.transaction():
            producer.send("t", b"kept")
    name = f"{TRANSACTIONS_TOPIC}-{partition_for('x')}/00000000000000000000.log"
    lines = dumped(tmp_path / name)
    payloads = [json.loads(line.split(" payload: ")[1]) for line in lines if " payload: " in line]
    assert {payload["version"] for payload in payloads} == {"1"}
    data = [payload["data"] for payload in payloads]
    assert [one["transactionStatus"] for one in data] == [0, 1, 2, 4], "Empty, Ongoing, decided, complete"
    assert [one["producerEpoch"] for one in data] == [0, 0, 1, 1]
    assert data[2]["transactionPartitions"] == [{"topic": "t", "partitionIds": [0]}]
    assert data[2]["clientTransactionVersion"] == 2

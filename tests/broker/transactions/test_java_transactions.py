"""Transactions of Kafka's own clients: 4.4 by transaction.version 2, 3.9 by the older protocol."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ottla import EmbeddedBroker, Producer
from ottla.broker.groups.coordinator import partition_for
from ottla.model.topic_partition import TRANSACTIONS_TOPIC
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest
from tests.blocking_client import BlockingClient
from tests.waiting import PATIENCE_S
from tools.peer_cache import KAFKA_3, KAFKA_4, KAFKA_CLIENTS, Unavailable, java_classes, kafka_libs, program

ENDS = 11
PROGRAM = Path(__file__).with_name("TransactionSteps.java")


def java(version: str, name: str, *arguments: str) -> str:
    """What a Java program prints."""
    try:
        path = f"{java_classes(PROGRAM, version)}{os.pathsep}{kafka_libs(version)}{os.sep}*"
        command = [program("java"), "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", path, name, *arguments]
    except Unavailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_kafkas_dump_tool_reads_the_transaction_log(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("t")
        one = Producer(bootstrap_servers=broker.bootstrap, transactional_id="x")
        with one as producer, producer.transaction():
            producer.send("t", b"kept")
    name = f"{TRANSACTIONS_TOPIC}-{partition_for('x')}/00000000000000000000.log"
    arguments = "--transaction-log-decoder", "--files", str(tmp_path / name)
    lines = java(KAFKA_4, "org.apache.kafka.tools.DumpLogSegments", *arguments).splitlines()
    payloads = [json.loads(line.split(" payload: ")[1]) for line in lines if " payload: " in line]
    assert {payload["version"] for payload in payloads} == {"1"}
    data = [payload["data"] for payload in payloads]
    assert [one["transactionStatus"] for one in data] == [0, 1, 2, 4], "Empty, Ongoing, decided, complete"
    assert [one["producerEpoch"] for one in data] == [0, 0, 1, 1]
    assert data[2]["transactionPartitions"] == [{"topic": "t", "partitionIds": [0]}]
    assert data[2]["clientTransactionVersion"] == 2


@pytest.mark.parametrize("version", [KAFKA_CLIENTS, KAFKA_3])
def test_java_commits_aborts_and_is_fenced(version: str) -> None:
    with EmbeddedBroker() as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic)
        told = java(version, PROGRAM.stem, broker.bootstrap)
        epoch = _epoch(broker)
    assert told.splitlines() == ["fenced", "offset 8", "0 2 4 6 8 last"]
    assert (epoch > ENDS) == (version == KAFKA_CLIENTS), "by transaction.version 2 every end raises the epoch"


def _epoch(broker: EmbeddedBroker) -> int:
    host, port = broker.bootstrap.split(":")
    with BlockingClient(host, int(port)) as client:
        request = DescribeTransactionsRequest(transactional_ids=["java"])
        (described,) = client.call(request).transaction_states
    return described.producer_epoch

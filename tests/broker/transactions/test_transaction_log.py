"""Kafka's own tool reads the log of transactions."""

from __future__ import annotations

import json
from pathlib import Path

from ottla import EmbeddedBroker, Producer
from ottla.broker.coordination.led_partitions import partition_for
from ottla.model.topic_partition import TRANSACTIONS_TOPIC
from tests.kafka_programs import dump_log
from tools.peer_cache import KAFKA_4


def test_kafkas_dump_tool_reads_the_transaction_log(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("t")
        one = Producer(bootstrap_servers=broker.bootstrap, transactional_id="x")
        with one as producer, producer.transaction():
            producer.send("t", b"kept")
    name = f"{TRANSACTIONS_TOPIC}-{partition_for('x')}/00000000000000000000.log"
    lines = dump_log(KAFKA_4, "--transaction-log-decoder", "--files", tmp_path / name).splitlines()
    payloads = [json.loads(line.split(" payload: ")[1]) for line in lines if " payload: " in line]
    assert {payload["version"] for payload in payloads} == {"1"}
    data = [payload["data"] for payload in payloads]
    assert [one["transactionStatus"] for one in data] == [0, 1, 2, 4], "Empty, Ongoing, decided, complete"
    assert [one["producerEpoch"] for one in data] == [0, 0, 1, 1]
    assert data[2]["transactionPartitions"] == [{"topic": "t", "partitionIds": [0]}]
    assert data[2]["clientTransactionVersion"] == 2

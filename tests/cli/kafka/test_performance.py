"""Both perf tests on the embedded broker: their last lines have the form of Kafka's."""

from __future__ import annotations

import re

from cli.kafka.conftest import ours
from ottla import EmbeddedBroker

SENT = re.compile(
    r"300 records sent, [0-9.]+ records/sec \([0-9.]+ MB/sec\), [0-9.]+ ms avg latency, "
    r"[0-9.]+ ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\.\n"
)


def test_both() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("perf", 2)
        what = ("--topic", "perf", "--num-records", "300", "--record-size", "100", "--throughput", "-1")
        sent = ours(
            "kafka-producer-perf-test",
            *what,
            "--producer-props",
            f"bootstrap.servers={broker.bootstrap}",
            "acks=1",
        )
        assert sent.code == 0
        assert SENT.fullmatch(sent.printed)
        read = ("--bootstrap-server", broker.bootstrap, "--topic", "perf", "--messages", "300")
        found = ours("kafka-consumer-perf-test", *read)
        header, row = found.printed.splitlines()
        assert header.startswith("start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg,")
        assert (found.code, len(row.split(", ")), row.split(", ")[4]) == (0, 10, "300")

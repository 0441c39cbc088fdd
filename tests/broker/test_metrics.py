"""What /metrics tells, read by Prometheus' own parser."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ottla import Producer
from ottla.broker.embedded import EmbeddedBroker
from ottla.model.exposition import Metric, exposition
from tests.broker.scraping import fetched, free_port, samples
from tests.waiting import wait_for


def test_offsets_connections_and_requests_are_told(tmp_path: Path) -> None:
    port = free_port()
    with EmbeddedBroker(tmp_path, properties={"ottla.metrics.port": str(port)}) as broker:
        broker.create_topic("orders", 2)
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.sendall(bytes.fromhex("0000000a 0012 0000 00000007 ffff"))  # ApiVersions v0
            client.recv(4096)
            status, text = fetched(port)
        assert status == 200
        told = samples(text)
    assert told["ottla_log_end_offset", (("partition", "1"), ("topic", "orders"))] == 0
    assert told["ottla_requests_total", (("api", "ApiVersions"), ("broker", "0"))] == 1
    assert told["ottla_connections", (("broker", "0"),)] == 1
    assert told["ottla_received_bytes_total", (("broker", "0"),)] == 14
    assert told["ottla_topics", ()] == 1
    assert told["ottla_partitions_offline", ()] == 0


@pytest.mark.parametrize(("path", "method", "status"), [("/", "GET", 404), ("/metrics", "POST", 405)])
def test_other_requests_are_refused(tmp_path: Path, path: str, method: str, status: int) -> None:
    port = free_port()
    with EmbeddedBroker(tmp_path, properties={"ottla.metrics.port": str(port)}):
        assert fetched(port, path, method)[0] == status


def test_labels_are_escaped() -> None:
    text = exposition([Metric("m", "gauge", "Text.", [({"topic": 'a"b\\c\nd'}, 1)])])
    assert samples(text) == {("m", (("topic", 'a"b\\c\nd'),)): 1}


def test_transactions_are_told(tmp_path: Path) -> None:
    port = free_port()
    properties = {
        "ottla.metrics.port": str(port),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    }
    with EmbeddedBroker(tmp_path, properties=properties) as broker:
        broker.create_topic("orders", 2)

        def told(name: str, **labels: str) -> float:
            return samples(fetched(port)[1])[f"ottla_transactions{name}", tuple(sorted(labels.items()))]

        def producer(name: str, timeout_ms: int = 60_000) -> Producer:
            return Producer(
                bootstrap_servers=broker.bootstrap, transactional_id=name, transaction_timeout_ms=timeout_ms
            )

        with producer("a") as first, producer("slow", 100) as slow:
            for _ in range(3):
                with first.transaction():
                    first.send("orders", b"kept")
            first.begin()
            first.send("orders", b"dropped").result(60)
            first.abort()
            slow.begin()
            slow.send("orders", b"late").result(60)
            wait_for(lambda: told("_timed_out_total", broker="0") == 1)
            first.begin()
            first.send("orders", b"open").result(60)
            assert told("", broker="0", state="Ongoing") == 1
            assert told("_committed_total", broker="0") == 3
            assert told("_aborted_total", broker="0") == 2
            assert told("_oldest_open_seconds", broker="0") > 0
            assert told("_hanging") == 0

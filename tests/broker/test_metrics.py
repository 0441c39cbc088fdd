"""What /metrics tells, read by Prometheus' own parser."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.embedded import EmbeddedBroker
from ottla.model.exposition import Metric, exposition


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def fetched(port: int, path: str = "/metrics", method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


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

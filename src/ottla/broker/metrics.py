"""What Prometheus is told, at http://host:port/metrics, and the few lines of HTTP that takes.

Everything is read when it is asked for, on the loop that owns it: serving a request counts, and nothing more.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator

from ottla.broker.cluster import Cluster
from ottla.broker.node import Node
from ottla.broker.partition import NO_LEADER
from ottla.model.errors import ConfigError
from ottla.model.exposition import CONTENT_TYPE, Metric, exposition
from ottla.wire.registry import apis

REQUEST_BYTES_MAX = 8192
REQUEST_SECONDS_MAX = 5.0


def collected(cluster: Cluster, nodes: Iterable[Node]) -> list[Metric]:
    """All there is to tell."""
    return [*_of_nodes(list(nodes)), *_of_partitions(cluster), *_of_process()]


def _of_nodes(nodes: list[Node]) -> Iterator[Metric]:
    names = {key: api.name for key, api in apis().items()}
    ids = [({"broker": node.broker_id}, node) for node in nodes]
    requests = [
        ({"broker": node.broker_id, "api": names[key]}, count)
        for node in nodes
        for key, count in sorted(node.counts.items())
    ]
    groups = [
        ({"broker": node.broker_id, "state": state}, count)
        for node in nodes
        for state, count in sorted(node.groups.coordinator.group_states().items())
    ]
    refused = [(labels, node.refused_count) for labels, node in ids]
    yield Metric("ottla_requests_total", "counter", "Requests, by API.", requests)
    yield Metric(
        "ottla_received_bytes_total", "counter", "Bytes from clients.", [(one, n.bytes_in) for one, n in ids]
    )
    yield Metric(
        "ottla_sent_bytes_total", "counter", "Bytes to clients.", [(one, n.bytes_out) for one, n in ids]
    )
    yield Metric(
        "ottla_connections", "gauge", "Connections now.", [(one, len(n.connections)) for one, n in ids]
    )
    yield Metric("ottla_connections_refused_total", "counter", "Connections above a limit.", refused)
    yield Metric(
        "ottla_protocol_faults_total",
        "counter",
        "Connections closed because of what the peer sent.",
        [(one, n.faults_seen) for one, n in ids],
    )
    yield Metric("ottla_groups", "gauge", "Consumer groups, by state.", groups)


def _of_partitions(cluster: Cluster) -> Iterator[Metric]:
    labels = [
        ({"topic": one.topic, "partition": one.index}, one.log) for one in cluster.all_partitions() if one.log
    ]
    offline = sum(one.log is None or one.leader == NO_LEADER for one in cluster.all_partitions())
    ends = [(one, log.high_watermark) for one, log in labels]
    starts = [(one, log.start_offset) for one, log in labels]
    sizes = [(one, log.size) for one, log in labels]
    yield Metric("ottla_log_end_offset", "gauge", "The offset of the next record.", ends)
    yield Metric("ottla_log_start_offset", "gauge", "The first offset that can be read.", starts)
    yield Metric("ottla_log_bytes", "gauge", "Bytes of the log files.", sizes)
    yield Metric("ottla_partitions_offline", "gauge", "Partitions that nobody can read.", [({}, offline)])
    yield Metric("ottla_topics", "gauge", "Topics.", [({}, len(cluster.partitions))])


def _of_process() -> Iterator[Metric]:
    yield Metric(
        "process_cpu_seconds_total", "counter", "CPU time, all threads.", [({}, time.process_time())]
    )
    resident = _resident_bytes()
    if resident is not None:
        yield Metric("process_resident_memory_bytes", "gauge", "Memory in use.", [({}, resident)])


def _resident_bytes() -> int | None:
    """Where /proc tells it."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


class MetricsServer:
    """Answers GET /metrics, one request a connection."""

    def __init__(self, cluster: Cluster, nodes: Iterable[Node]) -> None:
        self._cluster = cluster
        self._nodes = list(nodes)
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; `port` tells where."""
        try:
            self._server = await asyncio.start_server(self._answer, host, port, limit=REQUEST_BYTES_MAX)
        except OSError as error:
            raise ConfigError(f"ottla.metrics.port: cannot listen on {host}:{port}: {error}") from error

    @property
    def port(self) -> int:
        """Where it listens; 0 if it does not."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server else 0

    def stop(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(self._response(head))
            await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, ConnectionError):
            pass  # whoever it was does not speak HTTP, or has left
        finally:
            writer.close()

    def _response(self, head: bytes) -> bytes:
        method, path, *_ = [*head.split(b"\r\n", 1)[0].split(b" "), b"", b""]
        if path.split(b"?")[0] != b"/metrics":
            return _http("404 Not Found", "there is only /metrics\n")
        if method not in (b"GET", b"HEAD"):
            return _http("405 Method Not Allowed", "GET is wanted\n")
        text = exposition(collected(self._cluster, self._nodes))
        return _http("200 OK", text, has_body=method == b"GET")


def _http(status: str, text: str, *, has_body: bool = True) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + (body if has_body else b"")

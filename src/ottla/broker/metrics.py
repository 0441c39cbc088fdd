"""Metrics for Prometheus at http://host:port/metrics, and the few lines of HTTP that this takes.

Values are read when Prometheus asks for them, on the loop that owns them. Serving a client only counts.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator

from ottla.broker.node import Node
from ottla.broker.storage.partition import NO_LEADER
from ottla.broker.storage.topic_store import TopicStore
from ottla.broker.storage.write_faults import WriteFaults
from ottla.broker.transactions import transaction_metrics
from ottla.log.segment_list import damage_in
from ottla.model.exposition import CONTENT_TYPE, Metric, Samples, exposition
from ottla.model.listening import cannot_listen
from ottla.wire.registry import api

REQUEST_BYTES_MAX = 8192
REQUEST_SECONDS_MAX = 5.0


def collected(store: TopicStore, nodes: Iterable[Node], faults: WriteFaults) -> list[Metric]:
    """Return all metrics as they are now."""
    nodes = list(nodes)
    return [
        *_of_nodes(nodes),
        *_of_memory(nodes),
        *_of_partitions(store),
        *transaction_metrics.collected(
            store,
            {node.broker_id: node.transactions.coordinator for node in nodes},
            int(time.time() * 1000),
        ),
        *_of_storage(faults),
        *_of_process(),
    ]


def _of_nodes(nodes: list[Node]) -> Iterator[Metric]:
    traffic = [({"broker": node.broker_id}, node.traffic) for node in nodes]
    requests = [
        ({"broker": node.broker_id, "api": api(key).name}, count)
        for node in nodes
        for key, count in sorted(node.traffic.calls.items())
    ]
    groups = [
        ({"broker": node.broker_id, "state": state}, count)
        for node in nodes
        for state, count in sorted(node.groups.coordinator.group_states().items())
    ]
    refused = [(labels, of_node.refused_connections) for labels, of_node in traffic]
    received = [(labels, of_node.bytes_in) for labels, of_node in traffic]
    sent = [(labels, of_node.bytes_out) for labels, of_node in traffic]
    connections = [(labels, len(of_node.connections)) for labels, of_node in traffic]
    faults = [(labels, of_node.protocol_faults) for labels, of_node in traffic]
    yield Metric("ottla_requests_total", "counter", "Requests, by API.", requests)
    yield Metric("ottla_received_bytes_total", "counter", "Bytes from clients.", received)
    yield Metric("ottla_sent_bytes_total", "counter", "Bytes to clients.", sent)
    yield Metric("ottla_connections", "gauge", "Connections now.", connections)
    yield Metric("ottla_connections_refused_total", "counter", "Connections above a limit.", refused)
    yield Metric(
        "ottla_protocol_faults_total",
        "counter",
        "Connections closed because of what the peer sent.",
        faults,
    )
    yield from _of_quotas(nodes)
    yield Metric("ottla_groups", "gauge", "Consumer groups, by state.", groups)


def _of_quotas(nodes: list[Node]) -> Iterator[Metric]:
    counted = [
        ({"broker": node.broker_id, "quota": name}, count, node.broker.quotas.throttled_ms[name] / 1000)
        for node in nodes
        for name, count in sorted(node.broker.quotas.throttled.items())
    ]
    answers = [(labels, count) for labels, count, _ in counted]
    waits = [(labels, seconds) for labels, _, seconds in counted]
    yield Metric("ottla_throttled_total", "counter", "Answers above a quota, and connections.", answers)
    yield Metric("ottla_throttled_seconds_total", "counter", "How long clients were told to wait.", waits)


def _of_memory(nodes: list[Node]) -> Iterator[Metric]:
    """Yield the metrics of memory: all nodes of a process share one budget."""
    if not nodes:
        return
    for node in nodes:
        node.groups.count_memory()
    shares = nodes[0].broker.memory.shares
    used = [({"share": name}, share.used) for name, share in shares.items()]
    limits = [({"share": name}, share.limit) for name, share in shares.items()]
    refused = [({"share": name}, share.refused) for name, share in shares.items()]
    yield Metric("ottla_memory_used_bytes", "gauge", "What clients make the process hold, by share.", used)
    yield Metric("ottla_memory_limit_bytes", "gauge", "The limits of ottla.memory.max.bytes.", limits)
    text = "What the limits have cost: connections, joins, producers that were forgotten."
    yield Metric("ottla_memory_refusals_total", "counter", text, refused)


def _of_partitions(store: TopicStore) -> Iterator[Metric]:
    partitions = list(store.all_partitions())
    logs = [
        ({"topic": partition.topic, "partition": partition.index}, partition.log)
        for partition in partitions
        if partition.log
    ]
    offline = sum(
        partition.log is None or partition.log.failure is not None or partition.leader == NO_LEADER
        for partition in partitions
    )
    ends = [(labels, log.high_watermark) for labels, log in logs]
    starts = [(labels, log.start_offset) for labels, log in logs]
    sizes = [(labels, log.size) for labels, log in logs]
    yield Metric("ottla_log_end_offset", "gauge", "The offset of the next record.", ends)
    yield Metric("ottla_log_start_offset", "gauge", "The first offset that can be read.", starts)
    yield Metric("ottla_log_bytes", "gauge", "Bytes of the log files.", sizes)
    yield Metric("ottla_partitions_offline", "gauge", "Partitions that nobody can read.", [({}, offline)])
    lost = [
        ({"topic": item.topic, "partition": item.index}, item.log.report) for item in store.losses if item.log
    ]
    cut = [(labels, report.bytes_cut) for labels, report in lost]
    gone = [(labels, report.offsets_lost) for labels, report in lost]
    damaged: Samples = [({}, len(store.directory.damaged))]
    yield Metric("ottla_recovery_cut_bytes", "gauge", "Bytes that the last start cut off a log.", cut)
    yield Metric("ottla_recovery_lost_offsets", "gauge", "Offsets that the last start found lost.", gone)
    unreadable = [(labels, len(damage)) for labels, log in logs if (damage := damage_in(log.segments))]
    yield Metric("ottla_segments_damaged", "gauge", "Segments that readers found damaged.", unreadable)
    yield Metric("ottla_partitions_damaged", "gauge", "Partitions that need `ottla log repair`.", damaged)
    yield Metric("ottla_topics", "gauge", "Topics.", [({}, len(store.partitions))])


def _of_storage(faults: WriteFaults) -> Iterator[Metric]:
    text = "Writes and flushes of partitions that failed."
    yield Metric("ottla_write_failures_total", "counter", text, [({}, faults.count)])


def _of_process() -> Iterator[Metric]:
    yield Metric(
        "process_cpu_seconds_total", "counter", "CPU time, all threads.", [({}, time.process_time())]
    )
    resident = _resident_bytes()
    if resident is not None:
        yield Metric("process_resident_memory_bytes", "gauge", "Memory in use.", [({}, resident)])


def _resident_bytes() -> int | None:
    """The memory of this process, where /proc shows it."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


class MetricsServer:
    """Answers GET /metrics, one request a connection."""

    def __init__(self, store: TopicStore, nodes: Iterable[Node], faults: WriteFaults) -> None:
        self._store = store
        self._faults = faults
        self._nodes = list(nodes)
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; then `port` is the port in use."""
        try:
            self._server = await asyncio.start_server(self._answer, host, port, limit=REQUEST_BYTES_MAX)
        except OSError as error:
            raise cannot_listen("ottla.metrics.port", host, port, error) from error

    @property
    def port(self) -> int:
        """The port that it listens on; 0 if it does not listen."""
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
            pass  # the client does not speak HTTP, or has left
        finally:
            writer.close()

    def _response(self, head: bytes) -> bytes:
        method, path, *_ = [*head.split(b"\r\n", 1)[0].split(b" "), b"", b""]
        if path.split(b"?")[0] != b"/metrics":
            return _http("404 Not Found", "there is only /metrics\n")
        if method not in (b"GET", b"HEAD"):
            return _http("405 Method Not Allowed", "only GET and HEAD work\n")
        text = exposition(collected(self._store, self._nodes, self._faults))
        return _http("200 OK", text, has_body=method == b"GET")


def _http(status: str, text: str, *, has_body: bool = True) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + (body if has_body else b"")

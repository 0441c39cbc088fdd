"""TLS: what one client moves through a listener with it, and an honest client beside a flood of handshakes.

Ours and Kafka 4 run at the same time, each in a process of its own with the same certificate, and take turns.
The client is the same on both: confluent-kafka. `produce` and `fetch` move values of 1 kB with acks=all, by
the wall clock. `flood` is the 99th percentile of an honest client's requests over TLS while a process begins
handshakes as fast as it can, beside the same without it: on our broker alone. Strangers have processors of
their own in production; here they must not take the honest client's, so the process that floods runs when a
processor is idle (SCHED_IDLE: with a nice value the kernel lets it finish its slice of 3 ms first). What it
costs the broker is measured; how many handshakes the broker answers meanwhile is the second figure.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.broker.processes import LOCALHOST, free_port, started
from benchmarks.harness import QUICK, Better, Case, Effort, Peer, benchmark, version_of
from ottla import Admin
from ottla.admin import NewTopic
from ottla.security.local_authority import LocalAuthority
from ottla.security.private_files import write_private
from tools.peers import KAFKA_4, RealKafka, Unavailable

logger = logging.getLogger(__name__)

VALUE = b"v" * 1000
RECORDS = (20_000, 200_000)
REQUESTS = (1_000, 3_000)
HEAP_MB = 1024
WAIT_S = 60
AT_ONCE = 8
FLOOD_MIN = 200.0
"""Handshakes a second: fewer are no flood."""
Settings = dict[str, str]


@benchmark("tls-produce")
def tls_produce(effort: Effort) -> Iterator[Case]:
    """Megabytes a second through TLS into a topic."""
    yield from _moved(effort, "produce", _produced)


@benchmark("tls-fetch")
def tls_fetch(effort: Effort) -> Iterator[Case]:
    """Megabytes a second through TLS out of a topic."""
    yield from _moved(effort, "fetch", _fetched)


def _moved(effort: Effort, what: str, measure: Any) -> Iterator[Case]:
    if version_of("confluent-kafka") is None:
        logger.warning("confluent-kafka is not installed: nothing to measure with")
        return
    count = RECORDS[effort is not QUICK]
    with ExitStack() as stack:
        place = Path(stack.enter_context(_directory()))
        ours = stack.enter_context(_ours(place))
        try:
            kafka = stack.enter_context(_kafka(place))
            peer = Peer("Apache Kafka", KAFKA_4, partial(measure, kafka, count), target=1)
        except Unavailable as error:
            peer = Peer("Apache Kafka", KAFKA_4, note=str(error), target=1)
        name = f"{what}, 1 kB values over TLS, confluent-kafka"
        yield Case(name, "MB/s", partial(measure, ours, count), [peer], effort.server_rounds)


@benchmark("tls-flood")
def tls_flood(effort: Effort) -> Iterator[Case]:
    """An honest client's 99th percentile beside a flood of handshakes: at most twice that without it."""
    count = REQUESTS[effort is not QUICK]
    with _directory() as directory, _ours(Path(directory)) as settings:
        alone = Peer("without the flood", measure=partial(_p99, settings, count), target=0.5)
        name = "an honest client over TLS beside a flood of handshakes, 99th percentile"
        rounds, answered = effort.server_rounds, []

        def in_flood() -> float:
            p99_ms, handshakes = _p99_in_flood(settings, count)
            answered.append(handshakes)
            return p99_ms

        yield Case(name, "ms", in_flood, [alone], rounds, Better.LESS)
        least = Peer("what is a flood", measure=lambda: FLOOD_MIN, target=1)
        yield Case("handshakes of the flood that were answered", "1/s", lambda: min(answered), [least], 1)


# --- both brokers


@contextmanager
def _ours(place: Path) -> Iterator[Settings]:
    port = free_port()
    lines = {"listeners": f"SSL://{LOCALHOST}:{port}", "log.dir": str(place / "ours"), **_stores(place)}
    file = place / "ours.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    command = [sys.executable, "-m", "ottla", "broker", "start", "--config", str(file)]
    with started("ottla", version_of("ottla") or "", command, port):
        yield _client(place, port)


@contextmanager
def _kafka(place: Path) -> Iterator[Settings]:
    protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL"
    properties = {"listener.security.protocol.map": protocols, **_stores(place)}
    with RealKafka(
        KAFKA_4,
        data_dir=place / "kafka",
        heap_mb=HEAP_MB,
        is_measured=True,
        listeners=["SSL"],
        properties=properties,
    ) as kafka:
        yield _client(place, kafka.listener_ports["SSL"])


def _stores(place: Path) -> Settings:
    server = place / "server.pem"
    if not server.exists():
        write_private(server, LocalAuthority(place).certified("server", [LOCALHOST]))
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(server)}


def _client(place: Path, port: int) -> Settings:
    where = {"bootstrap.servers": f"{LOCALHOST}:{port}", "security.protocol": "SSL"}
    return where | {"ssl.ca.location": str(place / "ca.pem")}


def _directory() -> tempfile.TemporaryDirectory[str]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="ottla-benchmark-", dir=memory)


@contextmanager
def _topic(settings: Settings) -> Iterator[str]:
    """A topic of one partition, deleted at the end so that memory is not filled."""
    name = f"tls-{uuid.uuid4().hex}"
    with Admin(settings) as admin:
        admin.create_topics(NewTopic(name, 1, 1))
        try:
            yield name
        finally:
            with suppress(Exception):
                admin.delete_topics(name)


# --- what is measured


def _send(settings: Settings, topic: str, count: int) -> float:
    """Send so many records; returns how long it took."""
    from confluent_kafka import Producer

    producer = Producer({**settings, "acks": "all", "queue.buffering.max.messages": 1_000_000})
    producer.list_topics(topic, timeout=WAIT_S)
    began_at = time.perf_counter()
    for _ in range(count):
        producer.produce(topic, VALUE)
    left = producer.flush(WAIT_S)
    assert left == 0, f"{left} records were not delivered"
    return time.perf_counter() - began_at


def _produced(settings: Settings, count: int) -> float:
    with _topic(settings) as topic:
        return count * len(VALUE) / 1e6 / _send(settings, topic, count)


def _fetched(settings: Settings, count: int) -> float:
    from confluent_kafka import Consumer, TopicPartition

    with _topic(settings) as topic:
        _send(settings, topic, count)
        consumer = Consumer({**settings, "group.id": topic, "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        began_at, left = time.perf_counter(), count
        while left:
            left -= len(consumer.consume(10_000, 1.0))
        took_s = time.perf_counter() - began_at
        consumer.close()
    return count * len(VALUE) / 1e6 / took_s


def _p99(settings: Settings, count: int) -> float:
    """Of requests one after the other, in milliseconds."""
    times_s = []
    with Admin(settings) as admin:
        admin.list_topics()
        for _ in range(count):
            began_at = time.perf_counter()
            admin.list_topics()
            times_s.append(time.perf_counter() - began_at)
    return sorted(times_s)[int(count * 0.99)] * 1000


def _p99_in_flood(settings: Settings, count: int) -> tuple[float, float]:
    """The 99th percentile in milliseconds, and the handshakes a second that the broker answered meanwhile."""
    port = settings["bootstrap.servers"].rpartition(":")[2]
    code = f"from benchmarks.tls import flood; flood({port})"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as flooding:
        assert flooding.stdout is not None
        try:
            flooding.stdout.read(1)  # it has begun
            began_at = time.perf_counter()
            p99_ms = _p99(settings, count)
            took_s = time.perf_counter() - began_at
        finally:
            flooding.kill()
        return p99_ms, len(flooding.stdout.read()) * AT_ONCE / took_s


def flood(port: int) -> None:
    """Begin handshakes without an end, some at once; writes a byte when the broker has answered them."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while True:
        opened = [socket.create_connection((LOCALHOST, port)) for _ in range(AT_ONCE)]
        for connection in opened:
            sent = ssl.MemoryBIO()
            hello = context.wrap_bio(ssl.MemoryBIO(), sent)
            with suppress(ssl.SSLWantReadError):
                hello.do_handshake()
            connection.sendall(sent.read())
        for connection in opened:
            with suppress(OSError):
                connection.recv(1 << 16)  # the broker has signed: that is what costs it
            connection.close()
        os.write(1, b".")

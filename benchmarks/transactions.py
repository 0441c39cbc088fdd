"""Transactions: what a producer sends and how long its commits take, on our broker and on Kafka 4; and what
reading only committed records costs.

Ours and Kafka's broker run at the same time, each in a process of its own with its data in memory where the
system has such a place, and take turns. The client is the same on both: confluent-kafka or ours. `produce`
sends values of 100 B as fast as the client can and commits at each interval; what counts are records of
committed transactions by the wall clock. `commit` is the 99th percentile of commits of one record, back to
back. `read` is one client on our broker: the columns of a topic by CPU time of the client, with
isolation.level read_committed beside read_uncommitted, of records without transactions and of committed ones.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from benchmarks.broker.processes import free_port, started
from benchmarks.harness import QUICK, Better, Case, Effort, Peer, benchmark, version_of
from ottla import Admin, PartitionConsumer, Producer
from ottla.admin import NewTopic
from tools.peers import KAFKA_4, RealKafka, Unavailable

logger = logging.getLogger(__name__)

INTERVALS_MS = (10, 100, 1_000)
VALUE = b"v" * 100
ROWS = 1_000
TABLE = pa.table({"value": pa.array([VALUE] * ROWS, pa.binary())})
READ_TARGET = 0.97
HEAP_MB = 1024
WAIT_S = 60
PASSES = 25


class Sender(Protocol):
    """A transactional producer."""

    def begin(self) -> None: ...
    def send(self) -> int:
        """Send some records; return how many."""

    def send_one(self) -> None: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


class _Ours:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(bootstrap_servers=bootstrap, transactional_id=uuid.uuid4().hex)
        self._producer.init_transactions()
        self.begin, self.commit, self.close = (
            self._producer.begin,
            self._producer.commit,
            self._producer.close,
        )

    def send(self) -> int:
        self._producer.send_batch(self._topic, TABLE)
        return ROWS

    def send_one(self) -> None:
        self._producer.send(self._topic, VALUE)


class _Confluent:
    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Producer as ConfluentProducer

        self._topic = topic
        self._producer = ConfluentProducer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": uuid.uuid4().hex,
                "queue.buffering.max.messages": 200_000,
            }
        )
        self._producer.init_transactions(WAIT_S)
        self.begin = self._producer.begin_transaction

    def send(self) -> int:
        for _ in range(ROWS):
            while True:
                try:
                    self._producer.produce(self._topic, VALUE)
                    break
                except BufferError:
                    self._producer.poll(0.01)
        self._producer.poll(0)
        return ROWS

    def send_one(self) -> None:
        self._producer.produce(self._topic, VALUE)

    def commit(self) -> None:
        self._producer.commit_transaction(WAIT_S)

    def close(self) -> None:
        self._producer.purge()


CLIENTS: dict[str, Callable[[str, str], Sender]] = {"ottla": _Ours, "confluent-kafka": _Confluent}


@benchmark("transactions-produce")
def transactions_produce(effort: Effort) -> Iterator[Case]:
    """Records a second in committed transactions, by client and commit interval."""
    seconds = 1.5 if effort is QUICK else 5.0
    with _brokers() as (ours, kafka):
        for name in _installed():
            for interval_ms in INTERVALS_MS:
                measure = partial(_throughput, CLIENTS[name], interval_ms / 1000, seconds)
                yield Case(
                    f"{name}: 100 B values, a commit every {interval_ms} ms",
                    "records/s",
                    partial(measure, ours),
                    [_peer(kafka, measure)],
                    effort.server_rounds,
                )


@benchmark("transactions-commit")
def transactions_commit(effort: Effort) -> Iterator[Case]:
    """How long a commit of one record takes."""
    count = 200 if effort is QUICK else 2_000
    with _brokers() as (ours, kafka):
        for name in _installed():
            measure = partial(_commit_p99, CLIENTS[name], count)
            yield Case(
                f"{name}: commit of one record, 99th percentile",
                "ms",
                partial(measure, ours),
                [_peer(kafka, measure)],
                effort.server_rounds,
                Better.LESS,
            )


@benchmark("transactions-read")
def transactions_read(effort: Effort) -> Iterator[Case]:
    """Committed records beside all records, of a topic without aborts."""
    tables = effort.server_mb * 10
    with ExitStack() as stack:
        bootstrap = stack.enter_context(_our_broker())
        for kind, each in (("without transactions", 0), ("of committed transactions", 100)):
            topic = _filled(bootstrap, tables, each)
            read = partial(_columns_read, bootstrap, topic, tables * ROWS)
            yield Case(
                f"read_committed, 100 B values {kind}",
                "records per CPU second",
                partial(read, "read_committed"),
                [Peer("read_uncommitted", "", partial(read, "read_uncommitted"), target=READ_TARGET)],
                2 * effort.server_rounds,
            )


def _installed() -> Sequence[str]:
    return [name for name in CLIENTS if version_of(name) is not None]


def _peer(kafka: str | None, measure: Callable[[str], float]) -> Peer:
    if kafka is None:
        return Peer("Apache Kafka", KAFKA_4, note="cannot be run here", target=1.0)
    return Peer("Apache Kafka", KAFKA_4, partial(measure, kafka), target=1.0)


# --- brokers


@contextmanager
def _brokers() -> Iterator[tuple[str, str | None]]:
    """The addresses of both; None where Kafka cannot be had."""
    with ExitStack() as stack:
        ours = stack.enter_context(_our_broker())
        kafka = None
        try:
            place = Path(stack.enter_context(_directory()))
            kafka = stack.enter_context(
                RealKafka(KAFKA_4, data_dir=place, heap_mb=HEAP_MB, is_measured=True)
            ).bootstrap
        except Unavailable as error:
            logger.warning("Kafka %s cannot be run here: %s", KAFKA_4, error)
        yield ours, kafka


@contextmanager
def _our_broker() -> Iterator[str]:
    port = free_port()
    with _directory() as directory:
        command = [sys.executable, "-m", "ottla", "broker", "start"]
        command += ["--port", str(port), "--data-dir", directory]
        with started("ottla", version_of("ottla") or "", command, port) as server:
            yield server.bootstrap


def _directory() -> tempfile.TemporaryDirectory[str]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="ottla-benchmark-", dir=memory)


@contextmanager
def _topic(bootstrap: str) -> Iterator[str]:
    """A topic of one partition, deleted at the end so that memory is not filled."""
    name = f"transactions-{uuid.uuid4().hex}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(name, 1))
        try:
            yield name
        finally:
            with suppress(Exception):
                admin.delete_topics(name)


# --- what is measured


def _throughput(
    client: Callable[[str, str], Sender], interval_s: float, seconds: float, bootstrap: str
) -> float:
    with _topic(bootstrap) as topic:
        sender = client(bootstrap, topic)
        committed = 0
        began_at = time.perf_counter()
        while time.perf_counter() - began_at < seconds:
            sent, due_at = 0, time.perf_counter() + interval_s
            sender.begin()
            while time.perf_counter() < due_at:
                sent += sender.send()
            sender.commit()
            committed += sent
        took_s = time.perf_counter() - began_at
        sender.close()
    return committed / took_s


def _commit_p99(client: Callable[[str, str], Sender], count: int, bootstrap: str) -> float:
    with _topic(bootstrap) as topic:
        sender = client(bootstrap, topic)
        times_s = []
        for _ in range(count):
            sender.begin()
            sender.send_one()
            began_at = time.perf_counter()
            sender.commit()
            times_s.append(time.perf_counter() - began_at)
        sender.close()
    return sorted(times_s)[int(count * 0.99)] * 1000


def _filled(bootstrap: str, tables: int, committed_each: int) -> str:
    """A topic with so many tables; in transactions of `committed_each` of them if that is not 0."""
    topic = f"read-{uuid.uuid4().hex}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(topic, 1))
    settings = {"bootstrap.servers": bootstrap} | ({"transactional.id": topic} if committed_each else {})
    with Producer(settings) as producer:
        for number in range(tables):
            if committed_each and number % committed_each == 0:
                if number:
                    producer.commit()
                producer.begin()
            producer.send_batch(topic, TABLE)
        if committed_each:
            producer.commit()
    return topic


def _columns_read(bootstrap: str, topic: str, count: int, level: str) -> float:
    """Records per CPU second of the best of several passes over the topic.

    Both levels read the same bytes by the same code, so what differs between passes is what else the machine
    does: caches, clock rates, other programs. The best has least of it; a sum could not tell 3 %.
    """
    used_s = []
    for _ in range(PASSES):
        with PartitionConsumer(bootstrap_servers=bootstrap, isolation_level=level) as consumer:
            reader = consumer.consume_partition(topic, 0, "earliest")
            began_at, left = time.process_time(), count
            for chunk in reader.chunks():
                left -= chunk.batch.num_rows
                if left <= 0:
                    break
            used_s.append(time.process_time() - began_at)
    return count / min(used_s)

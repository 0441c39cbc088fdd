"""Records a second into our broker, in a process of its own: ours beside other clients.

Every contender sends the same values to a topic of its own and has them acknowledged by "all", within the
time that is measured: by the wall clock, and as CPU time of the client. Ours takes Arrow columns
(`send_batch`), lists (`send_many`) or rows (`send`); the others have rows only and get Python objects that
exist already. Topics are deleted after a case. The broker's data are in memory where the system has such a
place, since clients are compared here and not disks.

The bare loop sends requests that were encoded beforehand, five in flight, and looks at no answer: what is
left to gain by the wall clock with this broker on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa

from benchmarks.broker.contenders import counted, ottla_command
from benchmarks.broker.processes import Server, free_port, started
from benchmarks.harness import Case, Effort, Measure, Peer, benchmark, version_of
from ottla.admin import Admin, NewTopic
from ottla.client.client_config import ClientConfig
from ottla.client.connection import Connection
from ottla.producer import Producer
from ottla.records.builder import Numbering, encode
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic

ARROW_TARGETS = {100: 10.0, 1_000: 4.0}
BARE_TARGETS = {100: None, 1_000: 0.9}
ROW_TARGET = 1.0
LIST_TARGET = 5.0
PARTITIONS = (1, 8)
GROWTH = (1, 10, 100, 1_000)
TABLE_ROWS = 20_000
TIMEOUT_S = 120
KEY_BYTES = 8
# How much less a contender sends than ours, so that a round of each takes about as long.
SHARES = {
    "bare": 1,
    "ottla": 1,
    "ottla lists": 1,
    "ottla rows": 4,
    "confluent-kafka": 4,
    "aiokafka": 32,
    "kafka-python": 128,
}
CLOCKS = {"by the clock": time.perf_counter, "per CPU second of the client": time.process_time}
IN_FLIGHT = 5
NAMED_PRODUCE = 9


@dataclass(frozen=True)
class Shape:
    """What is sent: values of one size, with keys where there are several partitions."""

    value_bytes: int
    partitions: int

    @property
    def has_keys(self) -> bool:
        return self.partitions > 1

    @property
    def values(self) -> list[bytes]:
        tail = b"v" * (self.value_bytes - 8)
        return [b"%08d" % n + tail for n in range(TABLE_ROWS)]

    @property
    def keys(self) -> list[bytes | None]:
        return [b"%0*d" % (KEY_BYTES, n) if self.has_keys else None for n in range(TABLE_ROWS)]

    @property
    def table(self) -> pa.Table:
        columns = {"value": pa.array(self.values, pa.binary())}
        if self.has_keys:
            columns["key"] = pa.array(self.keys, pa.binary())
        return pa.table(columns)

    def rounds_of(self, megabytes: float) -> int:
        """How many tables have `megabytes` together."""
        return max(1, round(megabytes * 1e6 / (TABLE_ROWS * self.value_bytes)))

    def __str__(self) -> str:
        keys = " with keys" if self.has_keys else ""
        return f"{self.value_bytes} B values{keys}, {counted(self.partitions, 'partition')}"


@benchmark("produce-arrow")
def produce_arrow(effort: Effort) -> Iterator[Case]:
    """From Arrow columns, beside clients that take rows."""
    shapes = [
        (Shape(value_bytes, partitions), clock)
        for value_bytes, partitions, clock in product(ARROW_TARGETS, PARTITIONS, CLOCKS)
    ]
    return _cases(
        "produce from Arrow",
        effort,
        shapes,
        _Contenders.columns,
        lambda contenders, shape: [
            *contenders.peers(ARROW_TARGETS[shape.value_bytes]),
            contenders.bare_peer(BARE_TARGETS[shape.value_bytes]),
        ],
    )


@benchmark("produce-rows")
def produce_rows(effort: Effort) -> Iterator[Case]:
    """Row by row, as the others."""
    return _cases(
        "produce row by row",
        effort,
        _one_partition(),
        _Contenders.rows,
        lambda contenders, _: contenders.peers(ROW_TARGET),
    )


@benchmark("produce-lists")
def produce_lists(effort: Effort) -> Iterator[Case]:
    """From lists of Python objects, beside clients that take them one by one."""
    return _cases(
        "produce from lists",
        effort,
        _one_partition(),
        _Contenders.lists,
        lambda contenders, _: [
            contenders.peer("confluent-kafka", contenders.confluent, LIST_TARGET),
            contenders.bare_peer(),
        ],
    )


@benchmark("produce-growth")
def produce_growth(effort: Effort) -> Iterator[Case]:
    """From Arrow columns with keys, over more and more partitions."""
    return _cases(
        "produce from Arrow",
        effort,
        [(Shape(100, partitions), "") for partitions in GROWTH],
        _Contenders.columns,
        lambda contenders, _: [contenders.peer("confluent-kafka", contenders.confluent, None)],
    )


def _one_partition() -> list[tuple[Shape, str]]:
    return [(Shape(value_bytes, 1), clock) for value_bytes, clock in product(ARROW_TARGETS, CLOCKS)]


def _cases(
    name: str,
    effort: Effort,
    shapes: Iterable[tuple[Shape, str]],
    ours: Callable[[_Contenders], Measure],
    peers: Callable[[_Contenders, Shape], list[Peer]],
) -> Iterator[Case]:
    """A case for each shape and clock, which is the wall's if it has no name; all on one broker."""
    with _broker() as server:
        for shape, clock in shapes:
            with contextlib.ExitStack() as life:
                read_clock = CLOCKS.get(clock, time.perf_counter)
                contenders = _Contenders(server, shape, effort, life, read_clock)
                yield Case(
                    ", ".join(filter(None, (name, str(shape), clock))),
                    "records/s",
                    ours(contenders),
                    peers(contenders, shape),
                    effort.server_rounds,
                )


@contextlib.contextmanager
def _broker() -> Iterator[Server]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-", dir=memory) as directory:
        port = free_port()
        with started("ottla", version_of("ottla") or "", ottla_command(port, directory), port) as server:
            yield server


class _Contenders:
    """Ways to send one shape to one server; what they hold ends with `life`."""

    def __init__(
        self,
        server: Server,
        shape: Shape,
        effort: Effort,
        life: contextlib.ExitStack,
        clock: Callable[[], float],
    ) -> None:
        self._server, self._shape, self._megabytes = server, shape, effort.server_mb
        self._life, self._clock = life, clock
        self._pairs = list(zip(shape.keys, shape.values, strict=True))

    def peers(self, target: float) -> list[Peer]:
        """The others; the target is what ours is held to against librdkafka."""
        return [
            self.peer("confluent-kafka", self.confluent, target),
            self.peer("aiokafka", self.aiokafka, None),
            self.peer("kafka-python", self.kafka_python, None),
        ]

    def peer(self, name: str, measure: Callable[[], Measure], target: float | None) -> Peer:
        """A client that may not be installed."""
        version = version_of(name)
        if version is None:
            return Peer(name, note="not installed", target=target)
        return Peer(name, version, measure(), target=target)

    def bare_peer(self, target: float | None = None) -> Peer:
        """No client, only what the network and the broker take; ours is held to the target by the clock."""
        config = ClientConfig.from_properties({"bootstrap.servers": self._server.bootstrap})
        connection = self._life.enter_context(Connection.open(config.bootstrap[0], config))
        requests = self._encoded(self._topic())

        def send() -> None:
            for request in requests:
                if connection.in_flight_count == IN_FLIGHT:
                    connection.receive()
                connection.send(request, version=NAMED_PRODUCE)

        def flush() -> None:
            while connection.in_flight_count:
                connection.receive()

        is_by_clock = self._clock is time.perf_counter
        bare = self._measured("bare", send, flush)
        return Peer("a bare socket loop", "", bare, target=target if is_by_clock else None)

    def _encoded(self, topic: str) -> list[ProduceRequest]:
        """A table as requests of one batch each, to the partitions in turn."""
        batches = encode(self._shape.table, numbering=Numbering.REQUEST, timestamp_ms=0)
        return [
            ProduceRequest(
                acks=-1,
                timeout_ms=30_000,
                topic_data=[
                    ProduceTopic(
                        name=topic,
                        partition_data=[
                            ProducePartition(index=number % self._shape.partitions, records=batch)
                        ],
                    )
                ],
            )
            for number, batch in enumerate(batches)
        ]

    def columns(self) -> Measure:
        """Ours, by `send_batch`."""
        producer, topic = self._producer(), self._topic()
        table = self._shape.table

        def send() -> None:
            producer.send_batch(topic, table)

        return self._measured("ottla", send, lambda: producer.flush(TIMEOUT_S))

    def lists(self) -> Measure:
        """Ours, by `send_many`."""
        producer, topic, values = self._producer(), self._topic(), self._shape.values
        keys = self._shape.keys if self._shape.has_keys else None

        def send() -> None:
            producer.send_many(topic, values, keys)

        return self._measured("ottla lists", send, lambda: producer.flush(TIMEOUT_S))

    def rows(self) -> Measure:
        """Ours, by `send`."""
        producer, topic = self._producer(), self._topic()

        def send() -> None:
            for key, value in self._pairs:
                producer.send(topic, value, key)

        return self._measured("ottla rows", send, lambda: producer.flush(TIMEOUT_S))

    def confluent(self) -> Measure:
        """librdkafka by `produce`, with room for as many records as it may have."""
        from confluent_kafka import Producer as ConfluentProducer

        producer = ConfluentProducer(
            {
                "bootstrap.servers": self._server.bootstrap,
                "queue.buffering.max.messages": 1_000_000,
                "partitioner": "murmur2_random",
            }
        )
        topic = self._topic()

        def send() -> None:
            for key, value in self._pairs:
                try:
                    producer.produce(topic, value, key)
                except BufferError:
                    producer.poll(0.1)
                    producer.produce(topic, value, key)
            producer.poll(0)

        return self._measured("confluent-kafka", send, lambda: producer.flush(TIMEOUT_S))

    def aiokafka(self) -> Measure:
        """In a loop of its own."""
        from aiokafka import AIOKafkaProducer

        loop = asyncio.new_event_loop()
        self._life.callback(loop.close)

        async def started() -> Any:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._server.bootstrap, acks="all", max_batch_size=1_000_000, linger_ms=5
            )
            await producer.start()
            return producer

        producer = loop.run_until_complete(started())
        self._life.callback(lambda: loop.run_until_complete(producer.stop()))
        topic = self._topic()

        async def send() -> None:
            for key, value in self._pairs:
                await producer.send(topic, value, key)

        return self._measured(
            "aiokafka",
            lambda: loop.run_until_complete(send()),
            lambda: loop.run_until_complete(producer.flush()),
        )

    def kafka_python(self) -> Measure:
        """The pure Python client."""
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=self._server.bootstrap, acks="all", batch_size=1_000_000, linger_ms=5
        )
        self._life.callback(producer.close)
        topic = self._topic()

        def send() -> None:
            for key, value in self._pairs:
                producer.send(topic, value, key)

        return self._measured("kafka-python", send, lambda: producer.flush(TIMEOUT_S))

    def _measured(self, name: str, send: Callable[[], object], flush: Callable[[], object]) -> Measure:
        times = self._shape.rounds_of(self._megabytes / SHARES[name])

        def measure() -> float:
            start = self._clock()
            for _ in range(times):
                send()
            left = flush()
            if isinstance(left, int) and left:
                raise RuntimeError(f"{name}: {left} records are not acknowledged after {TIMEOUT_S} s")
            return times * TABLE_ROWS / (self._clock() - start)

        return measure

    def _producer(self) -> Producer:
        return self._life.enter_context(Producer(bootstrap_servers=self._server.bootstrap))

    def _topic(self) -> str:
        """A topic that is deleted at the end."""
        name = f"produce-{uuid.uuid4().hex[:12]}"
        with Admin(bootstrap_servers=self._server.bootstrap) as admin:
            admin.create_topics(NewTopic(name, self._shape.partitions))
        self._life.callback(self._delete, name)
        return name

    def _delete(self, name: str) -> None:
        with Admin(bootstrap_servers=self._server.bootstrap) as admin:
            admin.delete_topics(name)

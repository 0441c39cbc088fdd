"""Reading a topic from its start: records a second, by the wall clock and by CPU time of the client.

One broker of ours in a process of its own serves everybody. Records have 8 B keys and 100 B or 1 KB values in
batches of 16 KB, in one partition and in eight. Every contender reads through all partitions and touches
nothing: ours gets Arrow columns, the others get messages. Slower ones read less; they take turns, and the
best round of each counts. How cost grows with the number of partitions is a benchmark of its own.

confluent-kafka is measured with fetch.queue.backoff.ms=1: by default it pauses for a second whenever its
queue is full. The bare loop asks for 1 MB at a time, receives it into one buffer and looks at nothing: it is
told beforehand where batches begin.
"""

from __future__ import annotations

import asyncio
import gc
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, cast

from benchmarks.broker.contenders import counted, ottla
from benchmarks.broker.frames import frame
from benchmarks.broker.load import connected
from benchmarks.broker.processes import Server
from benchmarks.harness import Case, Effort, Measure, Peer, benchmark, version_of
from benchmarks.workload import Shape, record_sets
from ottla.client.client_config import ClientConfig
from ottla.client.connection import Connection
from ottla.fetching.engine import FetchEngine
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.inbox import Inbox
from ottla.model.address import Address, parse_address
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.reader import decode
from ottla.wire.api.create_topics import CreateTopic, CreateTopicConfig, CreateTopicsRequest
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from ottla.wire.headers import response_body
from ottla.wire.schema import decode_prefix

BATCH_BYTES = 16_384
KEY_BYTES = 8
FETCH_BYTES = 1 << 20
PARTITIONS = (1, 8)
VALUE_BYTES = (100, 1000)
DIFFERENT_MB = 16
TIMEOUT_S = 60.0
IN_FLIGHT = 20
# Of all records, by how fast the contender is.
CONFLUENT_SHARE, AIOKAFKA_SHARE, KAFKA_PYTHON_SHARE = 8, 16, 64
NAMED_FETCH, NAMED_PRODUCE, OLD_FETCH = 4, 9, 1
GROWTH_VALUE_BYTES, GROWTH_TARGETS = 100, {10: None, 100: None, 1000: 0.6, 10_000: 0.3}
"""By the number of partitions: what is left of the speed with one."""
TARGETS = {100: (10, 20, 80, 0.6), 1000: (3, 7, None, None)}
"""For confluent-kafka, aiokafka, kafka-python and the bare loop, by the size of the values."""

Read = Callable[[int], None]
Meter = Callable[[Read, int], float]


@dataclass(frozen=True)
class Log:
    """A topic that has been filled: the same batches over and over in each partition."""

    bootstrap: str
    topic: str
    partitions: int
    records: int
    set_bytes: tuple[int, ...]
    set_records: int
    broker_version: str = ""

    @property
    def client(self) -> ClientConfig:
        """How ours connects; old brokers are not asked for their version, which takes them seconds."""
        pin = {"broker.version": self.broker_version} if self.broker_version else {}
        return ClientConfig.from_properties({"bootstrap.servers": self.bootstrap, **pin})

    @property
    def address(self) -> Address:
        """Where it is."""
        return parse_address(self.bootstrap)


@benchmark("consume-columns")
def consume(effort: Effort) -> Iterator[Case]:
    """Small and large records in one and in eight partitions, by both clocks."""
    with ottla() as server:
        for value_bytes, partitions in product(VALUE_BYTES, PARTITIONS):
            log = filled(server, value_bytes, partitions, 4 * effort.server_mb)
            for meter, clock in ((by_wall, "by the clock"), (by_cpu, "per CPU second of the client")):
                name = f"consume {value_bytes} B values, {counted(partitions, 'partition')}, {clock}"
                yield _case(name, log, meter, value_bytes, effort)


@benchmark("consume-growth")
def growth(effort: Effort) -> Iterator[Case]:
    """The same bytes in more and more partitions, beside one partition and beside confluent-kafka."""
    with ottla() as server:
        single = filled(server, GROWTH_VALUE_BYTES, 1, 4 * effort.server_mb)
        for partitions, target in GROWTH_TARGETS.items():
            alone = Peer("ottla, 1 partition", "", _measure(read_ottla, single, by_cpu, 1), target=target)
            log = filled(server, GROWTH_VALUE_BYTES, partitions, 4 * effort.server_mb)
            name = f"consume {GROWTH_VALUE_BYTES} B values, {partitions} partitions, per CPU second"
            peers = [alone, _peer("confluent-kafka", read_confluent, log, by_cpu, CONFLUENT_SHARE, None)]
            yield Case(name, "records/s", _measure(read_ottla, log, by_cpu, 1), peers, effort.server_rounds)


def _case(name: str, log: Log, meter: Meter, value_bytes: int, effort: Effort) -> Case:
    confluent, aiokafka, kafka_python, bare = TARGETS[value_bytes]
    peers = [
        _peer("confluent-kafka", read_confluent, log, meter, CONFLUENT_SHARE, confluent),
        _peer("aiokafka", read_aiokafka, log, meter, AIOKAFKA_SHARE, aiokafka),
        _peer("kafka-python", read_kafka_python, log, meter, KAFKA_PYTHON_SHARE, kafka_python),
        Peer("a bare socket loop", "", _measure(read_bare, log, meter, 1), target=bare),
    ]
    return Case(name, "records/s", _measure(read_ottla, log, meter, 1), peers, effort.server_rounds)


def _peer(
    name: str, read: Callable[[Log, int], None], log: Log, meter: Meter, share: int, target: float | None
) -> Peer:
    version = version_of(name)
    if version is None:
        return Peer(name, note="not installed", target=target)
    return Peer(name, version, _measure(read, log, meter, share), target=target)


def _measure(read: Callable[[Log, int], None], log: Log, meter: Meter, share: int) -> Measure:
    return lambda: meter(partial(read, log), log.records // share)


def by_wall(read: Read, records: int) -> float:
    """Records a second."""
    return _rate(read, records, time.perf_counter)


def by_cpu(read: Read, records: int) -> float:
    """Records a CPU second of this process."""
    return _rate(read, records, time.process_time)


def _rate(read: Read, records: int, clock: Callable[[], float]) -> float:
    gc.collect()
    start = clock()
    read(records)
    return records / (clock() - start)


# --- the contenders: each reads a number of records, from the start of all partitions


def read_ottla(log: Log, records: int) -> None:
    """Ours, with the settings that users get."""
    with FetchEngine(log.client, FetchConfig()) as engine:
        inbox = Inbox()
        for partition in range(log.partitions):
            engine.add(TopicAndPartition(log.topic, partition), 0, inbox=inbox)
        left = records
        while left > 0:
            chunk = inbox.poll(TIMEOUT_S * 1000)
            if chunk is None:
                raise RuntimeError(f"ottla stopped {left} records before the end")
            left -= chunk.batch.num_rows


def read_confluent(log: Log, records: int) -> None:
    """librdkafka at its best setting; many messages at once."""
    from confluent_kafka import Consumer, TopicPartition

    consumer: Any = Consumer(
        {
            "bootstrap.servers": log.bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(log.topic, number, 0) for number in range(log.partitions)])
    left = records
    while left > 0:
        messages = consumer.consume(10_000, TIMEOUT_S)
        if not messages or messages[-1].error():
            raise RuntimeError(f"confluent-kafka stopped {left} records before the end: {messages[-1:]}")
        left -= len(messages)
    consumer.close()


def read_aiokafka(log: Log, records: int) -> None:
    """Many messages at once."""

    async def read() -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer: Any = AIOKafkaConsumer(bootstrap_servers=log.bootstrap, enable_auto_commit=False)
        await consumer.start()
        places = [TopicPartition(log.topic, number) for number in range(log.partitions)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        left = records
        while left > 0:
            found = await consumer.getmany(timeout_ms=round(TIMEOUT_S * 1000))
            if not found:
                raise RuntimeError(f"aiokafka stopped {left} records before the end")
            left -= sum(map(len, found.values()))
        await consumer.stop()

    asyncio.run(read())


def read_kafka_python(log: Log, records: int) -> None:
    """Many messages at once."""
    from kafka import KafkaConsumer, TopicPartition

    consumer: Any = KafkaConsumer(bootstrap_servers=log.bootstrap, enable_auto_commit=False)
    places = [TopicPartition(log.topic, number) for number in range(log.partitions)]
    consumer.assign(places)
    for place in places:
        consumer.seek(place, 0)
    left = records
    while left > 0:
        found = consumer.poll(timeout_ms=round(TIMEOUT_S * 1000), max_records=10_000)
        if not found:
            raise RuntimeError(f"kafka-python stopped {left} records before the end")
        left -= sum(map(len, found.values()))
    consumer.close()


def read_bare(log: Log, records: int) -> None:
    """As many bytes over one connection, a partition after the other; nothing is decoded."""
    head = memoryview(bytearray(4))
    room = memoryview(bytearray(2 * FETCH_BYTES))
    sets = len(log.set_bytes)
    version = OLD_FETCH if log.broker_version else NAMED_FETCH
    with connected(log.address) as connection:
        for partition in range(log.partitions):
            offset, end = 0, records // log.partitions
            while offset < end:
                size_max = log.set_bytes[offset // log.set_records % sets]
                asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size_max)
                topic = FetchTopic(topic=log.topic, partitions=[asked])
                request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=len(room), topics=[topic])
                connection.sendall(frame(request, version))
                _receive(connection, head)
                answer = room[: struct.unpack(">i", head)[0]]
                _receive(connection, answer)
                # A set comes whole, or a broker had to stop at the end of a file.
                offset += log.set_records if len(answer) > size_max else _short(answer, version)


def _short(answer: memoryview, version: int) -> int:
    """How many records came."""
    body = response_body(FetchRequest.API, version, answer)
    response, _ = decode_prefix(FetchResponse, version, body)
    (found,) = response.responses[0].partitions
    if found.error_code or not found.records:
        raise RuntimeError(f"a fetch was answered with error {found.error_code} and no records")
    return int(decode(found.records).batch.num_rows)


def _receive(connection: Any, room: memoryview) -> None:
    while room:
        count = connection.recv_into(room)
        if not count:
            raise ConnectionError("the broker closed the connection")
        room = room[count:]


# --- what they read


def filled(server: Server, value_bytes: int, partitions: int, megabytes: int) -> Log:
    """A new topic with `megabytes` in all."""
    batch_records = BATCH_BYTES // (value_bytes + KEY_BYTES + 10)
    shape = Shape(value_bytes, key_bytes=KEY_BYTES, batch_records=batch_records)
    made = record_sets(shape, DIFFERENT_MB)
    topic = f"consume-{uuid.uuid4().hex[:12]}"
    rounds = max(1, megabytes // partitions)
    set_batches = made.record_count // (DIFFERENT_MB * batch_records)
    batches = max(1, min(set_batches, set_batches * megabytes // partitions))
    config = ClientConfig.from_properties({"bootstrap.servers": server.bootstrap})
    with Connection.open(Address(*server.address), config) as connection:
        # The records are of long ago, and nothing is to be removed while it is read.
        forever = [CreateTopicConfig(name="retention.ms", value="-1")]
        wanted = CreateTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=forever)
        (created,) = connection.call(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
        if created.error_code:
            raise RuntimeError(f"topic {topic}: error {created.error_code}")
        for partition, number in product(range(partitions), range(rounds)):
            _write(connection, topic, partition, made.sets[number % DIFFERENT_MB], batches)
    set_records = batches * batch_records
    sizes = tuple(map(len, made.sets))
    return Log(server.bootstrap, topic, partitions, partitions * rounds * set_records, sizes, set_records)


def _write(connection: Connection, topic: str, partition: int, records: bytes, batches: int) -> None:
    """So many batches of a set; a request takes one."""
    at = sent = 0
    while batches or sent:
        if batches and sent < IN_FLIGHT:
            end = at + 12 + struct.unpack_from(">i", records, at + 8)[0]
            # A producer counts from 0; the offset is outside the checksum.
            part = ProducePartition(index=partition, records=bytes(8) + records[at + 8 : end])
            data = [ProduceTopic(name=topic, partition_data=[part])]
            connection.send(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data), version=NAMED_PRODUCE)
            at, sent, batches = end, sent + 1, batches - 1
            continue
        (answer,) = cast(ProduceResponse, connection.receive().message).responses[0].partition_responses
        sent -= 1
        if answer.error_code:
            raise RuntimeError(f"{topic}-{partition}: produce was answered with error {answer.error_code}")

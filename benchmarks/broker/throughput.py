"""Megabytes a second in and out, by the wall clock, beside Apache Kafka.

Each question is put twice: by the raw generator, which costs next to nothing, so that the server is the
limit; and by librdkafka, a real client, which is itself most of the work. Bytes are those of the records.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from itertools import product

from benchmarks.broker.contenders import MeasureOf, compared, counted, ottla
from benchmarks.broker.frames import ProduceShape, produce_frames
from benchmarks.broker.kafka import Rival, rivals
from benchmarks.broker.load import FetchLoad, ProduceLoad, StoredBatches, filled
from benchmarks.broker.processes import Server
from benchmarks.broker.rdkafka import RdkafkaConsumer, RdkafkaProducer
from benchmarks.broker.topics import new_topic
from benchmarks.harness import Case, Effort, Measure, benchmark

PRODUCE_TARGET = 0.9
FETCH_TARGET = 1.0
# Kafka 0.9 takes no record set above 1,000,012 bytes; 16 KB is the default batch of Kafka's producer.
REQUEST_BYTES = (1_000_000, 16_384)
VALUE_BYTES = (100, 1000)
FETCHERS = (1, 4)
# A Python program makes a message in about a microsecond: this much less passes in about the same time.
RDKAFKA_SHARE = 4
_IN_FLIGHT = 5
_DIFFERENT_FRAMES = 16
_FETCH_BYTES = 1_000_000


@benchmark("broker-produce")
def produce(effort: Effort) -> Iterator[Case]:
    """Large and small requests of small and large records, acks=1."""
    with ottla() as ours, rivals() as others:
        for rival, request_bytes, value_bytes in product(others, REQUEST_BYTES, VALUE_BYTES):
            shape = ProduceShape(value_bytes, request_bytes, rival.dialect)
            with contextlib.ExitStack() as loads:
                measure_of = partial(_produce_raw, loads, shape, effort.server_mb)
                name = f"produce, raw, {_IN_FLIGHT} in flight, {shape}"
                yield _versus(name, measure_of, ours, rival, effort, PRODUCE_TARGET)
            measure_of = partial(_produce_rdkafka, shape, effort.server_mb)
            name = f"produce, librdkafka, {shape}"
            yield _versus(name, measure_of, ours, rival, effort, PRODUCE_TARGET)


@benchmark("broker-fetch")
def fetch(effort: Effort) -> Iterator[Case]:
    """1 MB at a time of what a Java producer with default settings has written."""
    with ottla() as ours, rivals() as others:
        for rival, value_bytes in product(others, VALUE_BYTES):
            shape = ProduceShape(value_bytes, REQUEST_BYTES[-1], rival.dialect)
            topics = {
                server: _filled(server, shape, effort.server_mb)
                for server in (ours, rival.contender)
                if isinstance(server, Server)
            }
            for readers in FETCHERS:
                with contextlib.ExitStack() as loads:
                    measure_of = partial(_fetch_raw, loads, topics, readers)
                    opened = counted(readers, "connection")
                    name = f"fetch, raw, {opened}, {value_bytes} B records, {rival.dialect}"
                    yield _versus(name, measure_of, ours, rival, effort, FETCH_TARGET)
            name = f"fetch, librdkafka, {value_bytes} B records, {rival.dialect}"
            measure_of = partial(_fetch_rdkafka, topics, shape)
            yield _versus(name, measure_of, ours, rival, effort, FETCH_TARGET)


def _versus(
    name: str, measure_of: MeasureOf, ours: Server, rival: Rival, effort: Effort, target: float
) -> Case:
    return compared(
        name, "B/s", measure_of, ours, [rival.contender], rounds=effort.server_rounds, target=target
    )


def _produce_raw(loads: contextlib.ExitStack, shape: ProduceShape, megabytes: int, server: Server) -> Measure:
    frames = produce_frames(new_topic(server.address, shape.dialect), shape, count=_DIFFERENT_FRAMES)
    load = loads.enter_context(ProduceLoad(server.address, frames, in_flight=_IN_FLIGHT))
    requests = _requests(shape, megabytes)
    return lambda: load.run(requests).bytes_per_second


def _produce_rdkafka(shape: ProduceShape, megabytes: int, server: Server) -> Measure:
    topic = new_topic(server.address, shape.dialect)
    producer = RdkafkaProducer(server.bootstrap, topic, shape)
    return lambda: producer.run(megabytes // RDKAFKA_SHARE).bytes_per_second


def _filled(server: Server, shape: ProduceShape, megabytes: int) -> StoredBatches:
    frames = produce_frames(new_topic(server.address, shape.dialect), shape, count=1)
    return filled(server.address, frames, _requests(shape, megabytes))


def _fetch_raw(
    loads: contextlib.ExitStack, topics: dict[Server, StoredBatches], readers: int, server: Server
) -> Measure:
    stored = topics[server]
    load = FetchLoad(
        server.address,
        stored,
        connections=readers,
        batches_per_fetch=_FETCH_BYTES // stored.batch_bytes,
    )
    loads.enter_context(load)
    return lambda: load.run().bytes_per_second


def _fetch_rdkafka(topics: dict[Server, StoredBatches], shape: ProduceShape, server: Server) -> Measure:
    consumer = RdkafkaConsumer(server.bootstrap, topics[server], shape)
    return lambda: consumer.run().bytes_per_second


def _requests(shape: ProduceShape, megabytes: int) -> int:
    return megabytes * 1_000_000 // shape.request_bytes

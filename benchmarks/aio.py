"""Clients on an event loop: chunks, rows and sends of ours beside aiokafka and confluent-kafka's AIOConsumer.

One broker of ours in a process of its own serves everybody. Records have 8 B keys and 100 B values in one
partition; every client has the settings that users get. Slower contenders read fewer records; they take
turns, and the best round of each counts. `aio-stall` reads 1 GB of chunks and measures how late the loop
wakes up a task that wants to run every millisecond.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from benchmarks.broker.contenders import ottla
from benchmarks.harness import Better, Case, Effort, Measure, Peer, benchmark, version_of
from benchmarks.rows import Topic, filled
from ottla import aio

VALUE_BYTES = 100
VALUE = b"v" * VALUE_BYTES
TIMEOUT_S = 60.0
STALL_BYTES, STALL_VALUE_BYTES = 1 << 30, 1_000
STALL_MS = 5.0
CLOCKS = ((time.perf_counter, "by the clock"), (time.process_time, "per CPU second of the client"))

Work = Callable[[Topic, int], Awaitable[int]]


@benchmark("aio-chunks")
def chunks(effort: Effort) -> Iterator[Case]:
    """Many records at a time: Arrow columns beside lists of messages."""
    peers = [("aiokafka", read_getmany, 8, 20.0), ("confluent-kafka", read_polls, 64, 100.0)]
    yield from _cases("chunks", effort, read_chunks, peers)


@benchmark("aio-rows")
def rows(effort: Effort) -> Iterator[Case]:
    """Message by message."""
    peers = [("aiokafka", read_iterated, 8, 1.5), ("confluent-kafka", read_polls, 64, 5.0)]
    yield from _cases("rows", effort, read_rows, peers)


@benchmark("aio-produce")
def produce(effort: Effort) -> Iterator[Case]:
    """Row by row, all acknowledged at the end."""
    yield from _cases("sends", effort, send_rows, [("aiokafka", send_aiokafka, 2, 2.0)], share=4)


@benchmark("aio-stall")
def stall(effort: Effort) -> Iterator[Case]:
    """How late the loop is while much is read: the 99th percentile."""
    nbytes = STALL_BYTES if effort.rounds > 5 else STALL_BYTES // 8
    with ottla() as server:
        topic = filled(server.bootstrap, STALL_VALUE_BYTES, nbytes)
        limit = Peer("what it may be", measure=lambda: STALL_MS, target=1)
        name = f"loop late while {nbytes >> 20} MB are read as chunks, p99"
        measure = lambda: asyncio.run(_lateness_ms(topic))  # noqa: E731
        yield Case(name, "ms", measure, [limit], effort.process_rounds, Better.LESS)


def _cases(
    name: str,
    effort: Effort,
    ours: Work,
    peers: Sequence[tuple[str, Work, int, float]],
    share: int = 1,
) -> Iterator[Case]:
    with ottla() as server:
        topic = filled(server.bootstrap, VALUE_BYTES, effort.server_mb << 20)
        for clock, said in CLOCKS:
            others = [
                Peer(peer, version_of(peer) or "", _measure(work, topic, clock, less), target=target)
                for peer, work, less, target in peers
            ]
            measure = _measure(ours, topic, clock, share)
            yield Case(
                f"aio {name} of 100 B values, {said}", "records/s", measure, others, effort.server_rounds
            )


def _measure(work: Work, topic: Topic, clock: Callable[[], float], share: int) -> Measure:
    records = topic.records // share

    async def run() -> float:
        start = clock()
        done = await work(topic, records)
        took = clock() - start
        if done < records:
            raise RuntimeError(f"{work} stopped at {done} of {records}")
        return done / took

    def measure() -> float:
        gc.collect()
        return asyncio.run(run())

    return measure


# --- the contenders: each reads or writes at least a number of records


async def read_chunks(topic: Topic, records: int) -> int:
    """Ours, columns."""
    done = 0
    async with aio.PartitionConsumer(bootstrap_servers=topic.bootstrap) as consumer:
        reader = await consumer.consume_partition(topic.name, 0, "earliest")
        async for chunk in reader.chunks(timeout=TIMEOUT_S):
            done += chunk.batch.num_rows
            if done >= records:
                break
    return done


async def read_rows(topic: Topic, records: int) -> int:
    """Ours, rows."""
    done, seen = 0, None
    async with aio.PartitionConsumer(bootstrap_servers=topic.bootstrap) as consumer:
        reader = await consumer.consume_partition(topic.name, 0, "earliest")
        async for message in reader.messages(timeout=TIMEOUT_S):
            seen = message.offset, message.key, message.value
            done += 1
            if done >= records:
                break
    assert seen is not None
    return done


async def send_rows(topic: Topic, records: int) -> int:
    """Ours, sent."""
    async with aio.Producer(bootstrap_servers=topic.bootstrap) as producer:
        for _ in range(records):
            await producer.send(f"{topic.name}-ours", VALUE, partition=0)
        await producer.flush()
    return records


async def _aiokafka(topic: Topic) -> Any:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=topic.bootstrap, enable_auto_commit=False)
    await consumer.start()
    place = TopicPartition(topic.name, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    return consumer


async def read_getmany(topic: Topic, records: int) -> int:
    """aiokafka, lists of messages."""
    consumer = await _aiokafka(topic)
    done = 0
    while done < records and (some := await consumer.getmany(timeout_ms=int(TIMEOUT_S * 1000))):
        done += sum(map(len, some.values()))
    await consumer.stop()
    return done


async def read_iterated(topic: Topic, records: int) -> int:
    """aiokafka, message by message."""
    consumer = await _aiokafka(topic)
    done = 0
    async for message in consumer:
        _ = message.offset, message.key, message.value
        done += 1
        if done >= records:
            break
    await consumer.stop()
    return done


async def send_aiokafka(topic: Topic, records: int) -> int:
    """aiokafka, sent."""
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=topic.bootstrap)
    await producer.start()
    for _ in range(records):
        await producer.send(f"{topic.name}-theirs", VALUE, partition=0)
    await producer.stop()
    return records


async def read_polls(topic: Topic, records: int) -> int:
    """confluent-kafka: a thread of a pool for each message."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.aio import AIOConsumer

    consumer: Any = AIOConsumer(
        {"bootstrap.servers": topic.bootstrap, "group.id": "benchmark", "enable.auto.commit": False}
    )
    await consumer.assign([TopicPartition(topic.name, 0, 0)])
    done = 0
    while done < records and (message := await consumer.poll(TIMEOUT_S)) is not None:
        _ = message.offset(), message.key(), message.value()
        done += 1
    await consumer.close()
    return done


async def _lateness_ms(topic: Topic) -> float:
    late: list[float] = []

    async def tick() -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(0.001)
            late.append((time.perf_counter() - start - 0.001) * 1000)

    task = asyncio.create_task(tick())
    await read_chunks(topic, topic.records)
    task.cancel()
    late.sort()
    return late[int(len(late) * 0.99)]

"""Mirrors beside Kafka's own MirrorMaker, by the same files and flags.

`mirror`: the source is Kafka 0.9.0.1 with 8 B keys and 100 B values in one and in eight partitions, read by a
classic group, and the peer is that Kafka's MirrorMaker; records are placed by their keys.
`mirror-batches`: the source is our broker with the same records in compressed batches of 1 MB, read by a
modern group, and the peer is the last MirrorMaker that there was. Ours keeps partitions, so that batches go
as bytes; a MirrorMaker decompresses, places by keys, and compresses.

The target is our broker, whose time is that of neither. A rate is taken from the moment when the target has
a tenth of the records to that when it has all, by the clock and by the CPU time of the mirror: the start of
Java or of Python does not count, nor does a first rebalance.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.broker.contenders import counted
from benchmarks.consume import KEY_BYTES, PARTITIONS
from benchmarks.consume_scala import DIFFERENT_MB, HEAP_MB, VALUE_BYTES, filled
from benchmarks.cpu_time import peak_resident_mb, process_cpu_seconds
from benchmarks.harness import Case, Effort, Peer, benchmark
from benchmarks.workload import Shape, record_sets
from ottla import Admin, EmbeddedBroker, Producer
from ottla.records.reader import decode
from tools.peer_cache import program
from tools.peers import KAFKA_0_9, KAFKA_3, RealKafka, Unavailable, kafka_libs

logger = logging.getLogger(__name__)

TARGET = 5.0
BEGUN = 10  # a tenth
DEADLINE_S = 300
LOOK_S = 0.005


OURS = (sys.executable, "-m", "ottla", "kafka-mirror-maker")
CODEC = "lz4"
BATCH_BYTES = 1 << 20


class Task(NamedTuple):
    """A topic to mirror, and what the files for both sides have beside addresses and names."""

    topic: str
    partitions: int
    records: int
    consumer: str
    producer: str = ""


@benchmark("mirror")
def mirrors(effort: Effort) -> Iterator[Case]:
    """Small records in one and in eight partitions; nothing where Kafka 0.9 cannot be had."""
    try:
        with RealKafka(KAFKA_0_9, heap_mb=HEAP_MB, is_measured=True) as kafka:
            made = record_sets(Shape(VALUE_BYTES, key_bytes=KEY_BYTES, magic=0), DIFFERENT_MB)
            for partitions in PARTITIONS:
                log = filled(kafka, made, partitions, 2 * effort.server_mb)
                where = f"zookeeper.connect={kafka.zookeeper}\nauto.offset.reset=smallest\n"
                task = Task(log.topic, partitions, log.records, where)
                name = f"mirror {VALUE_BYTES} B values of Kafka 0.9, {counted(partitions, 'partition')}"
                yield from cases(name, effort, task, OURS, KAFKA_0_9)
    except Unavailable as error:
        logger.warning("Kafka %s cannot be run here: %s", KAFKA_0_9, error)


@benchmark("mirror-batches")
def mirrors_of_batches(effort: Effort) -> Iterator[Case]:
    """Batches that ours hands on as bytes; nothing where Kafka 3.9 cannot be had."""
    ours = (*OURS, "--message.handler", "ottla.mirror:same_partition")
    try:
        with EmbeddedBroker() as source:
            for partitions in PARTITIONS:
                topic = f"batches-{partitions}"
                records = written(source, topic, partitions, 2 * effort.server_mb)
                where = f"bootstrap.servers={source.bootstrap}\nauto.offset.reset=earliest\n"
                task = Task(topic, partitions, records, where, f"compression.type={CODEC}\n")
                name = (
                    f"mirror batches of {VALUE_BYTES} B values, {CODEC}, {counted(partitions, 'partition')}"
                )
                yield from cases(name, effort, task, ours, KAFKA_3)
    except Unavailable as error:
        logger.warning("Kafka %s cannot be run here: %s", KAFKA_3, error)


def cases(name: str, effort: Effort, task: Task, ours: Sequence[str], version: str) -> Iterator[Case]:
    """By both clocks."""
    theirs = mirror_maker(version)
    for unit, clock in CLOCKS.items():
        rival = Peer("MirrorMaker", version, partial(rate, theirs, task, clock), target=TARGET)
        own = partial(rate, ours, task, clock)
        yield Case(name, unit, own, [rival], max(2, effort.process_rounds), is_warmed=False)


def mirror_maker(version: str, heap_mb: int = HEAP_MB) -> list[str]:
    """The command of Kafka's own."""
    java = [program("java"), f"-Xmx{heap_mb}m", "-cp", f"{kafka_libs(version)}{os.sep}*"]
    return [*java, "kafka.tools.MirrorMaker"]


def written(broker: EmbeddedBroker, topic: str, partitions: int, megabytes: int) -> int:
    """Fill a topic with `megabytes` of values, before compression. Return the number of records."""
    broker.create_topic(topic, partitions)
    made = record_sets(Shape(VALUE_BYTES, key_bytes=KEY_BYTES), DIFFERENT_MB)
    sets = [decode(one).batch.select(["key", "value", "timestamp"]) for one in made.sets]
    settings = {"bootstrap.servers": broker.bootstrap, "compression.type": CODEC}
    records = 0
    with Producer({**settings, "batch.size": BATCH_BYTES, "linger.ms": 1000}) as producer:
        for number in range(megabytes):
            one = sets[number % len(sets)]
            producer.send_batch(topic, one, partition=number % partitions)
            records += one.num_rows
    return records


Clock = Callable[[int], float]
CLOCKS: dict[str, Clock] = {
    "records/s": lambda pid: time.perf_counter(),  # noqa: ARG005
    "records/CPU s": process_cpu_seconds,
}


def rate(command: Sequence[str], task: Task, clock: Clock) -> float:
    """Records a second of one mirror, from nothing to all."""
    with mirroring(command, task) as (target, process):
        return _rate(target, task, process, partial(clock, process.pid))


def peak_mb(command: Sequence[str], task: Task) -> float:
    """The most memory that a mirror has had when all is mirrored."""
    with mirroring(command, task) as (target, process):
        _rate(target, task, process, time.perf_counter)
        return peak_resident_mb(process.pid)


@contextlib.contextmanager
def mirroring(command: Sequence[str], task: Task) -> Iterator[tuple[EmbeddedBroker, subprocess.Popen[bytes]]]:
    """A mirror into a broker that has the topic, empty."""
    with EmbeddedBroker() as target, tempfile.TemporaryDirectory() as place:
        target.create_topic(task.topic, task.partitions)
        consumer, producer = Path(place, "consumer"), Path(place, "producer")
        consumer.write_text(f"{task.consumer}group.id={uuid.uuid4().hex}\n")
        producer.write_text(f"{task.producer}bootstrap.servers={target.bootstrap}\n")
        files = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
        process = subprocess.Popen(
            [*command, *files, "--whitelist", task.topic], stdout=sys.stderr, stderr=subprocess.DEVNULL
        )
        try:
            yield target, process
        finally:
            process.kill()
            process.wait()


def _rate(
    target: EmbeddedBroker, task: Task, process: subprocess.Popen[bytes], clock: Callable[[], float]
) -> float:
    begun, begun_at = 0, 0.0
    deadline = time.perf_counter() + DEADLINE_S
    with Admin(bootstrap_servers=target.bootstrap) as admin:
        while True:
            records = sum(one.offset or 0 for one in admin.list_offsets(task.topic).values())
            now = clock()
            if not begun and records >= task.records // BEGUN:
                begun, begun_at = records, now
            if records >= task.records and now > begun_at:
                return (records - begun) / (now - begun_at)
            if process.poll() is not None or time.perf_counter() > deadline:
                raise RuntimeError(f"{task.topic}: {records:,} of {task.records:,} records were mirrored")
            time.sleep(LOOK_S)

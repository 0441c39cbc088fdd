"""Mirrors of Apache Kafka 0.9: ours beside that Kafka's own MirrorMaker, by the same files and flags.

The source is Kafka 0.9.0.1 with 8 B keys and 100 B values in one and in eight partitions, read by a classic
group; the target is our broker, whose time is that of neither. Both are processes. A rate is taken from the
moment when the target has a tenth of the records to that when it has all, by the clock and by the CPU time of
the mirror: the start of Java or of Python does not count, nor does a first rebalance.
"""

from __future__ import annotations

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

from benchmarks.broker.contenders import counted
from benchmarks.consume import KEY_BYTES, PARTITIONS, Log
from benchmarks.consume_scala import DIFFERENT_MB, HEAP_MB, VALUE_BYTES, filled
from benchmarks.harness import Case, Effort, Peer, benchmark
from benchmarks.workload import Shape, record_sets
from ottla import Admin, EmbeddedBroker
from tools.peer_cache import program
from tools.peers import KAFKA_0_9, RealKafka, Unavailable, kafka_libs

logger = logging.getLogger(__name__)

TARGET = 5.0
BEGUN = 10  # a tenth
DEADLINE_S = 300
LOOK_S = 0.005


@benchmark("mirror")
def mirrors(effort: Effort) -> Iterator[Case]:
    """Small records in one and in eight partitions; nothing where Kafka 0.9 cannot be had."""
    ours = [sys.executable, "-m", "ottla", "kafka-mirror-maker"]
    theirs = [
        *(program("java"), f"-Xmx{HEAP_MB}m", "-cp", f"{kafka_libs(KAFKA_0_9)}{os.sep}*"),
        "kafka.tools.MirrorMaker",
    ]
    try:
        with RealKafka(KAFKA_0_9, heap_mb=HEAP_MB) as kafka:
            made = record_sets(Shape(VALUE_BYTES, key_bytes=KEY_BYTES, magic=0), DIFFERENT_MB)
            for partitions in PARTITIONS:
                topic = filled(kafka, made, partitions, 2 * effort.server_mb)
                name = f"mirror {VALUE_BYTES} B values of Kafka 0.9, {counted(partitions, 'partition')}"
                for unit, clock in CLOCKS.items():
                    rival = partial(rate, theirs, kafka, topic, clock)
                    yield Case(
                        name,
                        unit,
                        partial(rate, ours, kafka, topic, clock),
                        [Peer("MirrorMaker", KAFKA_0_9, rival, target=TARGET)],
                        max(2, effort.process_rounds),
                        is_warmed=False,
                    )
    except Unavailable as error:
        logger.warning("Kafka %s cannot be run here: %s", KAFKA_0_9, error)


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


Clock = Callable[[int], float]
CLOCKS: dict[str, Clock] = {"records/s": lambda pid: time.perf_counter(), "records/CPU s": cpu_seconds}  # noqa: ARG005


def rate(command: Sequence[str], kafka: RealKafka, topic: Log, clock: Clock) -> float:
    """Records a second of one mirror, from nothing to all."""
    with EmbeddedBroker() as target, tempfile.TemporaryDirectory() as place:
        target.create_topic(topic.topic, topic.partitions)
        consumer, producer = Path(place, "consumer"), Path(place, "producer")
        consumer.write_text(
            f"zookeeper.connect={kafka.zookeeper}\ngroup.id={uuid.uuid4().hex}\nauto.offset.reset=smallest\n"
        )
        producer.write_text(f"bootstrap.servers={target.bootstrap}\n")
        files = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
        process = subprocess.Popen(
            [*command, *files, "--whitelist", topic.topic], stdout=sys.stderr, stderr=subprocess.DEVNULL
        )
        try:
            return _rate(target, topic, process, partial(clock, process.pid))
        finally:
            process.kill()
            process.wait()


def _rate(
    target: EmbeddedBroker, topic: Log, process: subprocess.Popen[bytes], clock: Callable[[], float]
) -> float:
    begun, begun_at = 0, 0.0
    deadline = time.perf_counter() + DEADLINE_S
    with Admin(bootstrap_servers=target.bootstrap) as admin:
        while True:
            records = sum(one.offset or 0 for one in admin.list_offsets(topic.topic).values())
            now = clock()
            if not begun and records >= topic.records // BEGUN:
                begun, begun_at = records, now
            if records >= topic.records and now > begun_at:
                return (records - begun) / (now - begun_at)
            if process.poll() is not None or time.perf_counter() > deadline:
                raise RuntimeError(f"{topic.topic}: {records:,} of {topic.records:,} records were mirrored")
            time.sleep(LOOK_S)

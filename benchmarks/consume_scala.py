"""Columns from Apache Kafka 0.9 beside that Kafka's own Scala consumer: records a second, by the clock.

The broker is Kafka 0.9.0.1, and both read the same topics of it: 8 B keys and 100 B values in the messages of
format 0 that it stores, in one partition and in eight. They were written in requests of 16 KB, as producers
do: Kafka's index gets one entry a request, and from there on a fetch looks at one message after the other.
The rate of the Scala consumer is what its own tool, kafka.tools.ConsumerPerformance, prints: it counts from a
second after its connections are up, and does not count the start of Java.
"""

from __future__ import annotations

import logging
import os
import subprocess
import uuid
from collections.abc import Iterator
from functools import partial

from benchmarks.broker.contenders import counted
from benchmarks.consume import BATCH_BYTES, KEY_BYTES, PARTITIONS, Log, by_wall, read_ottla
from benchmarks.harness import Case, Effort, Peer, benchmark
from benchmarks.workload import RecordSets, Shape, record_sets
from ottla.client.connection import Connection
from ottla.client.metadata import ClusterMetadata
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tools.peer_cache import program
from tools.peers import KAFKA_0_9, RealKafka, Unavailable, kafka_libs

logger = logging.getLogger(__name__)

VALUE_BYTES = 100
DIFFERENT_MB = 16
HEAP_MB = 1024
TOOL_S = 300
TARGET = 3.0


@benchmark("consume-scala")
def scala(effort: Effort) -> Iterator[Case]:
    """Small records in one and in eight partitions; nothing where Kafka 0.9 cannot be had."""
    try:
        with RealKafka(KAFKA_0_9, heap_mb=HEAP_MB, is_measured=True) as kafka:
            made = record_sets(Shape(VALUE_BYTES, key_bytes=KEY_BYTES, magic=0), DIFFERENT_MB)
            for partitions in PARTITIONS:
                topic = filled(kafka, made, partitions, 2 * effort.server_mb)
                name = f"consume {VALUE_BYTES} B values of Kafka 0.9, {counted(partitions, 'partition')}"
                rival = Peer(
                    "ConsumerPerformance", KAFKA_0_9, partial(scala_rate, kafka, topic), target=TARGET
                )
                ours = partial(by_wall, partial(read_ottla, topic), topic.records)
                rounds = max(2, effort.process_rounds)
                yield Case(f"{name}, by the clock", "records/s", ours, [rival], rounds, is_warmed=False)
    except Unavailable as error:
        logger.warning("Kafka %s cannot be run here: %s", KAFKA_0_9, error)


def scala_rate(kafka: RealKafka, topic: Log) -> float:
    """Records a second of the old consumer, one thread, as the tool prints it behind the last comma."""
    options = {
        "zookeeper": kafka.zookeeper,
        "topic": topic.topic,
        "messages": f"{topic.records - 1}",  # for the one after the last it would wait until a timeout
        "threads": "1",
        "group": uuid.uuid4().hex,
    }
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    return float(kafka_tool("kafka.tools.ConsumerPerformance", *arguments).strip().rpartition(",")[2])


def filled(kafka: RealKafka, made: RecordSets, partitions: int, megabytes: int) -> Log:
    """A new topic with `megabytes` in all."""
    topic = f"consume-{uuid.uuid4().hex[:12]}"
    where = ["--zookeeper", kafka.zookeeper, "--topic", topic]
    kafka_tool(
        "kafka.admin.TopicCommand", "--create", *where, f"--partitions={partitions}", "--replication-factor=1"
    )
    rounds = max(1, megabytes // partitions)
    set_records = made.record_count // len(made.sets)
    sizes = tuple(map(len, made.sets))
    records = partitions * rounds * set_records
    log = Log(kafka.bootstrap, topic, partitions, records, sizes, set_records, broker_version="0.9")
    with ClusterMetadata(log.client) as metadata:
        for partition in range(partitions):
            with Connection.open(metadata.leader(topic, partition).node.address, log.client) as connection:
                for number in range(rounds):
                    data = made.sets[number % len(made.sets)]
                    message_bytes = len(data) // set_records
                    step = max(1, BATCH_BYTES // message_bytes) * message_bytes
                    for at in range(0, len(data), step):
                        _write(connection, topic, partition, data[at : at + step])
    return log


def _write(connection: Connection, topic: str, partition: int, records: bytes) -> None:
    data = [ProduceTopic(name=topic, partition_data=[ProducePartition(index=partition, records=records)])]
    answer = connection.call(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data))
    (response,) = answer.responses[0].partition_responses
    if response.error_code:
        raise RuntimeError(f"{topic}-{partition}: produce was answered with error {response.error_code}")


def kafka_tool(name: str, *arguments: str) -> str:
    """What a class of Kafka 0.9.0.1 with a main method prints."""
    command = [
        program("java"),
        f"-Xmx{HEAP_MB}m",
        "-cp",
        f"{kafka_libs(KAFKA_0_9)}{os.sep}*",
        name,
        *arguments,
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_S, check=False)
    if run.returncode:
        raise RuntimeError(f"{name} failed: {run.stdout[-500:]}{run.stderr[-500:]}")
    return run.stdout

"""The classic consumer beside Kafka's own: one connector, one stream, records a second by the clock.

The broker is Kafka 0.9.0.1 with its ZooKeeper, and both are members of groups there that nobody else is in.
They read the same topics: 8 B keys and 100 B or 1 KB values in one partition, uncompressed messages of format
0. Kafka's is kafka.tools.ConsumerPerformance, which looks at the size of every message; ours is read as
columns, and message by message in a loop that looks at the size of every value. A bare socket loop asks for
1 MB at a time and looks at nothing: the bound that the broker sets, which columns may come near instead.

The tool begins to count a second after its streams are there, when its queue is full; so do we with ours:
neither the start of Java nor the first rebalance counts. The tool is a new Java in each round, which compiles
while it is measured: the more is read in a round, the less that weighs. `--quick` reads 96 MB, else 512 MB.
"""

from __future__ import annotations

import gc
import logging
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from benchmarks.consume import KEY_BYTES, Log, by_wall, read_bare
from benchmarks.consume_scala import DIFFERENT_MB, HEAP_MB, filled, scala_rate
from benchmarks.harness import Case, Effort, Measure, Peer, benchmark
from benchmarks.workload import Shape, record_sets
from ottla.consumer.classic import ConsumerConnector, KafkaStream
from tools.peers import KAFKA_0_9, RealKafka, Unavailable

logger = logging.getLogger(__name__)

VALUE_BYTES = (100, 1000)
SETTLING_S = 1.0
"""As long as the tool waits between its streams and its clock."""
COLUMNS_TARGET, ROWS_TARGETS, BARE_TARGET = 3.0, {100: 1.0, 1000: 1.5}, 0.8

Read = Callable[[KafkaStream, int], int]


@benchmark("connector")
def connectors(effort: Effort) -> Iterator[Case]:
    """Columns and rows, small and large records; nothing where Kafka 0.9 cannot be had."""
    try:
        with RealKafka(KAFKA_0_9, heap_mb=HEAP_MB, is_measured=True) as kafka:
            for value_bytes in VALUE_BYTES:
                made = record_sets(Shape(value_bytes, key_bytes=KEY_BYTES, magic=0), DIFFERENT_MB)
                topic = filled(kafka, made, 1, 4 * effort.server_mb)
                bare = Peer("a bare socket loop", measure=partial(bare_rate, topic), target=BARE_TARGET)
                for read, said, target in (
                    (read_columns, "columns", COLUMNS_TARGET),
                    (read_rows, "rows", ROWS_TARGETS[value_bytes]),
                ):
                    rival = Peer(
                        "ConsumerPerformance", KAFKA_0_9, partial(scala_rate, kafka, topic), target=target
                    )
                    yield Case(
                        f"connector, {said} of {value_bytes} B values, by the clock",
                        "records/s",
                        rate_of(read, kafka.zookeeper, topic),
                        [rival, bare] if read is read_columns else [rival],
                        max(2, effort.process_rounds),
                    )
    except Unavailable as error:
        logger.warning("Kafka %s cannot be run here: %s", KAFKA_0_9, error)


def rate_of(read: Read, zookeeper: str, topic: Log) -> Measure:
    """Records a second of one stream from the start of the topic to its end."""

    def measure() -> float:
        with ConsumerConnector(
            group_id=uuid.uuid4().hex,
            zookeeper_connect=zookeeper,
            auto_offset_reset="smallest",
            broker_version=topic.broker_version,
        ) as connector:
            (stream,) = connector.create_message_streams({topic.topic: 1})[topic.topic]
            gc.collect()
            time.sleep(SETTLING_S)
            start = time.perf_counter()
            size = read(stream, topic.records)
            took = time.perf_counter() - start
        if not size:
            raise RuntimeError(f"{topic.topic}: no bytes in {topic.records:,} records")
        return topic.records / took

    return measure


def bare_rate(topic: Log) -> float:
    """Records a second of a loop that decodes nothing."""
    return by_wall(partial(read_bare, topic), topic.records)


def read_columns(stream: KafkaStream, records: int) -> int:
    """Read `records` records, by whole chunks, and return the bytes of the value columns."""
    size = 0
    for chunk in stream.chunks():
        size += chunk.batch.column("value").nbytes
        records -= chunk.batch.num_rows
        if records <= 0:
            break
    return size


def read_rows(stream: KafkaStream, records: int) -> int:
    """The same, message by message."""
    return sum(len(message.value or b"") for message in islice(stream, records))

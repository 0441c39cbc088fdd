"""`ottla bench`: how many records per second a cluster accepts and delivers, measured from here.

Records go through a new topic, which is deleted at the end, or through --topic, which is kept; of that only
the records of this run are read. Some records are sent before the measurement, because the first ones wait
for connections and for the compiler.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.connection_options import properties_of, without
from ottla.cli.output import Cell, OutputRows, Parser, new_parser, run_command
from ottla.cli.progress import ProgressLine
from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.admin import Admin

COLUMNS = ("step", "records", "bytes", "seconds", "records_per_s", "mib_per_s")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_MEBIBYTE = 1024 * 1024
_BATCH_BYTES = 1024 * 1024
QUIET_S = 30.0
"""After this time without a record the run has failed."""
_WARMING = 10_000


class BenchFailed(OttlaError):
    """Records did not come back."""


def parser() -> Parser:
    """`bench` and its options."""
    parser = new_parser("bench", "Measure how fast a cluster takes records, and gives them back.")
    parser.add_argument("-n", "--records", type=int, default=1_000_000, help="number of records (1000000)")
    parser.add_argument("--record-size", type=int, default=100, help="bytes of each record (100)")
    parser.add_argument("-p", "--partitions", type=int, default=1, help="partitions of the new topic (1)")
    parser.add_argument("-r", "--replicas", type=int, help="replicas of the new topic (the broker's default)")
    parser.add_argument("--compression", choices=CODECS, default="none", help="compression of batches (none)")
    parser.add_argument(
        "--acks", choices=("all", "1", "0"), default="all", help="acknowledgements to wait for (all)"
    )
    parser.add_argument(
        "--topic", help="an existing topic, which is kept; without it a new one is created and deleted"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Write, read, print the rates."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> OutputRows:
    if options.records < 1 or options.record_size < 1:
        parser().error("--records and --record-size are 1 at least")
    properties = properties_of(options)
    with _topic(options, properties) as (topic, admin):
        for count in (min(options.records, _WARMING), options.records):
            job = _Job(topic, count, options.record_size, properties)
            starts = _ends(admin, topic)
            produced = _produced(job, options)
            consumed = _consumed(job, starts)
    return OutputRows(COLUMNS, [_row("produce", job, produced), _row("consume", job, consumed)])


class _Job(NamedTuple):
    """A run: `records` records of `record_size` bytes through a topic."""

    topic: str
    records: int
    record_size: int
    properties: dict[str, object]


def _row(step: str, job: _Job, seconds: float) -> tuple[Cell, ...]:
    size = job.records * job.record_size
    rate = round(job.records / seconds), round(size / seconds / _MEBIBYTE, 1)
    return (step, job.records, size, round(seconds, 3), *rate)


@contextmanager
def _topic(options: argparse.Namespace, properties: Mapping[str, object]) -> Iterator[tuple[str, Admin]]:
    from ottla.admin import Admin, NewTopic

    with Admin(properties) as admin:
        name = options.topic or f"ottla-bench-{random.randrange(1_000_000):06}"
        if not options.topic:
            wanted = NewTopic(name, partitions=options.partitions, replication_factor=options.replicas)
            admin.create_topics(wanted)
        try:
            yield name, admin
        finally:
            if not options.topic:
                admin.delete_topics(name)


def _ends(admin: Admin, topic: str) -> dict[int, int]:
    return {
        topic_partition.partition: offset.offset or 0
        for topic_partition, offset in admin.list_offsets(topic).items()
    }


def _produced(job: _Job, options: argparse.Namespace) -> float:
    from ottla.producer import Producer

    settings = {
        **without(job.properties, "zookeeper.connect"),
        "acks": options.acks,
        "compression.type": options.compression,
    }
    with Producer(settings) as producer, ProgressLine(job.records, "records written") as progress:
        columns = _columns(job)
        begun = time.perf_counter()
        for at in range(0, job.records, columns.num_rows):
            part = columns.slice(0, min(columns.num_rows, job.records - at))
            producer.send_batch(job.topic, part)
            progress.update(part.num_rows)
        producer.flush()
        return time.perf_counter() - begun


def _columns(job: _Job) -> pa.RecordBatch:
    """About one batch of records with random letters."""
    import numpy as np
    import pyarrow as pa

    count = max(1, min(job.records, _BATCH_BYTES // job.record_size))
    letters = np.random.default_rng(0).integers(97, 123, count * job.record_size, np.uint8)
    ends = np.arange(count + 1, dtype=np.int32) * job.record_size
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
    return pa.record_batch({"value": pa.Array.from_buffers(pa.binary(), count, buffers)})


def _consumed(job: _Job, starts: Mapping[int, int]) -> float:
    from ottla.consumer.partition import PartitionConsumer

    left = job.records
    settings = without(job.properties, "zookeeper.connect")
    with PartitionConsumer(settings) as consumer, ProgressLine(job.records, "records read") as progress:
        begun = time.perf_counter()
        for partition, start in starts.items():
            consumer.consume_partition(job.topic, partition, start)
        for chunk in consumer.chunks(QUIET_S):
            left -= chunk.batch.num_rows
            progress.update(chunk.batch.num_rows)
            if left <= 0:
                return time.perf_counter() - begun
    raise BenchFailed(f"{left} of {job.records} records of {job.topic} did not come within {QUIET_S:.0f} s")

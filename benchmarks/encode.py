"""Encoding: Arrow columns to record batches by ours, lists of bytes to record batches by the others.

The lists are made before the clock starts, which flatters the others: making them of Arrow columns costs
several times what ours needs for everything. Everybody makes batches of about 1000 records, with checksums.
confluent-kafka has no batch builder that Python could call, so it is named and not measured.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from benchmarks.harness import Case, Effort, Measure, Peer, benchmark, rate, version_of
from benchmarks.workload import SET_BYTES, Row, Shape, rows
from ottla.records.builder import encode
from ottla.records.reader import decode

# Ours is held to the fastest of the others, so to each of them.
BUILDER_TARGET = 9


@dataclass(frozen=True)
class Columns:
    """The same records twice: as Arrow of about 1 MB each for ours, as batches of tuples for the others."""

    shape: Shape
    arrow: list[pa.RecordBatch]
    batches: list[list[Row]]

    @property
    def record_count(self) -> int:
        """How many records there are."""
        return len(self.batches) * self.shape.batch_records


@benchmark("encode")
def encode_100(effort: Effort) -> Iterator[Case]:
    """What the project promises: 100-byte values."""
    for key_bytes in (0, 8):
        yield _versus_builders(Shape(key_bytes=key_bytes), effort, BUILDER_TARGET)


@benchmark("encode-sizes")
def encode_sizes(effort: Effort) -> Iterator[Case]:
    """Smaller and larger values."""
    for value_bytes in (10, 1000):
        yield _versus_builders(Shape(value_bytes=value_bytes, key_bytes=8), effort, None)


def _versus_builders(shape: Shape, effort: Effort, target: float | None) -> Case:
    columns = _columns(shape, effort.fast_mb)
    _check_round_trip(columns)
    peers = [
        _builder("aiokafka", "aiokafka", columns, effort.medium_mb, target),
        _builder("kafka-python", "kafka", columns, effort.slow_mb, target),
        Peer("confluent-kafka", version_of("confluent-kafka") or "", note="exposes no batch builder"),
    ]
    return Case(f"encode, {shape}", "records/s", _ours(columns), peers, effort.rounds)


def _columns(shape: Shape, megabytes: int) -> Columns:
    source = rows(shape)
    batches_per_mb = max(1, SET_BYTES // (shape.batch_records * (shape.value_bytes + shape.key_bytes)))
    arrow, batches = [], []
    for _ in range(megabytes):
        group = [list(islice(source, shape.batch_records)) for _ in range(batches_per_mb)]
        batches += group
        timestamps, keys, values = zip(*(row for batch in group for row in batch), strict=True)
        arrays = {
            "timestamp": pa.array(timestamps, pa.timestamp("ms", tz="UTC")),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
        arrow.append(pa.RecordBatch.from_pydict(arrays))
    return Columns(shape, arrow, batches)


def _encoded(columns: pa.RecordBatch, shape: Shape) -> list[memoryview]:
    return encode(columns, batch_bytes=shape.batch_records * (shape.value_bytes + shape.key_bytes + 10))


def _check_round_trip(columns: Columns) -> None:
    """Fast and wrong does not count: our reader and, where installed, aiokafka's find the same records."""
    first, shape = columns.arrow[0], columns.shape
    data = b"".join(_encoded(first, shape))
    decoded = decode(data).batch
    if not all(decoded.column(name).equals(first.column(name)) for name in first.schema.names):
        raise AssertionError(f"what ours encoded of {shape} does not decode to the same records")
    if version_of("aiokafka") is None:
        return
    records = importlib.import_module("aiokafka.record.memory_records").MemoryRecords(data)
    found: list[Row] = []
    while records.has_next():
        batch = records.next_batch()
        if not batch.validate_crc():
            raise AssertionError(f"aiokafka finds a wrong checksum in what ours encoded of {shape}")
        found += [(record.timestamp, record.key, record.value) for record in batch]
    if found != [
        row for batch in columns.batches[: len(columns.batches) // len(columns.arrow)] for row in batch
    ]:
        raise AssertionError(f"aiokafka reads other records than ours encoded of {shape}")


def _ours(columns: Columns) -> Measure:
    def encode_all() -> None:
        for batch in columns.arrow:
            _encoded(batch, columns.shape)

    return rate(encode_all, columns.record_count)


def _builder(name: str, package: str, columns: Columns, megabytes: int, target: float | None) -> Peer:
    version = version_of(name)
    if version is None:
        return Peer(name, note="not installed", target=target)
    builder = importlib.import_module(f"{package}.record.default_records").DefaultRecordBatchBuilder
    batches = columns.batches[: len(columns.batches) * megabytes // len(columns.arrow)]

    def build_all() -> None:
        for batch in batches:
            _build(builder, batch)

    return Peer(name, version, rate(build_all, len(batches) * columns.shape.batch_records), target=target)


def _build(builder: Any, batch: list[Row]) -> Any:
    building = builder(2, 0, 0, -1, -1, -1, 1 << 30)
    append = building.append
    for delta, (timestamp, key, value) in enumerate(batch):
        append(delta, timestamp, key, value, [])
    return building.build()

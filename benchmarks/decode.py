"""Decoding: record sets to Arrow by ours; to Arrow or just to Python objects by the others.

Everybody checks checksums, which is the default of all three, except where a case says otherwise. "Iterating"
makes the record objects and drops them; "to Arrow" collects offsets, timestamps, keys and values in lists and
makes arrays of them, which is the least that a user of these clients has to do to get what ours gives.
confluent-kafka is missing: it does not let anyone parse bytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Case, Effort, Measure, Peer, benchmark, rate, version_of
from benchmarks.workload import CODECS, RecordSets, Shape, record_sets
from ottla.kernels import layout
from ottla.records.compression import Arena, Codec
from ottla.records.entries import read_only, scan
from ottla.records.reader import decode

Parse = Callable[[bytes], object]
Collect = Callable[[Iterator[Any]], list[pa.Array]]

KEYS = (0, 8)


@dataclass(frozen=True)
class Targets:
    """How many times faster than each of the others ours has to be."""

    aiokafka_to_arrow: float | None = None
    aiokafka_iterating: float | None = None
    kafka_python_iterating: float | None = None


NO_TARGETS = Targets()
PROMISED = Targets(aiokafka_to_arrow=14, aiokafka_iterating=5, kafka_python_iterating=100)
MEMCPY_TARGET = 0.3
LEGACY_RECORDS = 16e6
"""Messages of formats 0 and 1 that a core has to decode in a second."""
DECOMPRESSION_TARGET = 0.85
SMALL_BATCHES = Targets(aiokafka_to_arrow=10)


@benchmark("decode")
def decode_100(effort: Effort) -> Iterator[Case]:
    """What the project promises: 100-byte values."""
    for key_bytes in KEYS:
        sets = record_sets(Shape(key_bytes=key_bytes), effort.fast_mb)
        _check_same_records(sets)
        yield _versus_parsers(sets, effort, targets=PROMISED)
        yield _versus_memcpy(sets, effort)


@benchmark("decode-sizes")
def decode_sizes(effort: Effort) -> Iterator[Case]:
    """Smaller and larger values."""
    for value_bytes in (10, 1000):
        for key_bytes in KEYS:
            sets = record_sets(Shape(value_bytes=value_bytes, key_bytes=key_bytes), effort.fast_mb)
            yield _versus_parsers(sets, effort)


@benchmark("decode-batches")
def decode_batches(effort: Effort) -> Iterator[Case]:
    """Small batches, as producers without linger send them."""
    for batch_records in (1, 10):
        sets = record_sets(Shape(key_bytes=8, batch_records=batch_records), effort.fast_mb)
        yield _versus_parsers(sets, effort)


@benchmark("decode-headers")
def decode_headers(effort: Effort) -> Iterator[Case]:
    """Records with headers, which ours delivers as a column of lists."""
    sets = record_sets(Shape(key_bytes=8, headers=2), effort.fast_mb)
    yield _versus_parsers(sets, effort, ours=_decode_with_headers, collect=_lists_with_headers)


@benchmark("decode-legacy")
def decode_legacy(effort: Effort) -> Iterator[Case]:
    """Message formats 0 and 1, each message with a checksum of its own; then in compressed messages."""
    wanted = Peer("what it has to be", measure=lambda: LEGACY_RECORDS, target=1)
    for magic in (0, 1):
        sets = record_sets(Shape(key_bytes=8, magic=magic), effort.fast_mb)
        _check_same_records(sets)
        case = _versus_parsers(sets, effort)
        yield replace(case, peers=[wanted, *case.peers])
    for magic, codec in ((0, "snappy"), (1, "lz4")):
        sets = record_sets(Shape(key_bytes=8, magic=magic, codec=codec), effort.medium_mb)
        _check_same_records(sets)
        case = _versus_parsers(sets, effort)
        yield replace(case, peers=[wanted, *case.peers])
        yield _versus_decompression(sets, effort)


@benchmark("decode-codecs")
def decode_codecs(effort: Effort) -> Iterator[Case]:
    """Compressed batches. All of us decompress with the same libraries, so this is mostly theirs."""
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        for batch_records in (1000, 10, 1):
            is_large = batch_records == 1000
            shape = Shape(key_bytes=8, codec=codec, batch_records=batch_records)
            sets = record_sets(shape, effort.medium_mb)
            _check_same_records(sets)
            yield _versus_parsers(sets, effort, targets=NO_TARGETS if is_large else SMALL_BATCHES)
            yield _versus_decompression(sets, effort)


# ---- cases


def _versus_parsers(
    sets: RecordSets,
    effort: Effort,
    *,
    targets: Targets = NO_TARGETS,
    ours: Parse = decode,
    collect: Collect | None = None,
) -> Case:
    arrow = collect or _lists
    medium, slow = sets.first(effort.medium_mb), sets.first(effort.slow_mb)
    peers = [
        _parser("aiokafka to Arrow", lambda data: arrow(_aiokafka(data)), medium, targets.aiokafka_to_arrow),
        _parser(
            "aiokafka iterating", lambda data: _drain(_aiokafka(data)), medium, targets.aiokafka_iterating
        ),
        _parser("kafka-python to Arrow", lambda data: arrow(_kafka_python(data)), slow, None),
        _parser(
            "kafka-python iterating",
            lambda data: _drain(_kafka_python(data)),
            slow,
            targets.kafka_python_iterating,
        ),
    ]
    return Case(f"decode, {sets.shape}", "records/s", _each(ours, sets), peers, effort.rounds)


def _versus_memcpy(sets: RecordSets, effort: Effort) -> Case:
    sources = [np.frombuffer(data, np.uint8) for data in sets.sets]
    warm = np.zeros(max(map(len, sources)), np.uint8)
    stored_bytes = sum(map(len, sources))

    def copy_all() -> None:
        for source in sources:
            np.copyto(warm[: len(source)], source)

    def decode_all() -> None:
        for data in sets.sets:
            decode(data, verify_crc=False)

    peer = Peer("memcpy into a warm buffer", "", rate(copy_all, stored_bytes), target=MEMCPY_TARGET)
    ours = rate(decode_all, stored_bytes)
    return Case(f"decode, {sets.shape}, checksums not verified", "B/s", ours, [peer], effort.rounds)


def _versus_decompression(sets: RecordSets, effort: Effort) -> Case:
    """Beside the decompression alone, into memory that is used again and again."""
    codec, magic = Codec(CODECS[sets.shape.codec]), sets.shape.magic
    payloads = [_payloads(data, magic) for data in sets.sets]
    arena = Arena(limit=1 << 30)

    def decompress_all() -> None:
        for batches in payloads:
            arena.clear()
            for payload in batches:
                arena.append(codec, payload, magic=magic)

    alone = Peer("decompression alone", "", rate(decompress_all, sets.record_count))
    target = DECOMPRESSION_TARGET if sets.shape.batch_records == 1000 else None
    name = f"decode, {sets.shape}, beside decompression"
    return Case(name, "records/s", _each(decode, sets), [replace(alone, target=target)], effort.rounds)


def _payloads(data: bytes, magic: int) -> list[memoryview]:
    """The compressed bytes of each batch, or of each message: behind its null key and its length."""
    table = scan(read_only(data), verify_crc=False).table
    head = 0 if magic == 2 else 8
    return [
        memoryview(data)[start + head : end] for start, end in table[:, [layout.START, layout.END]].tolist()
    ]


def _parser(name: str, parse: Parse, sets: RecordSets, target: float | None) -> Peer:
    version = version_of(name.split()[0])
    if version is None:
        return Peer(name, note="not installed", target=target)
    try:
        parse(sets.sets[0])
    except _unsupported(name) as error:
        return Peer(name, version, note=f"cannot: {error}", target=target)
    return Peer(name, version, _each(parse, sets), target=target)


def _unsupported(name: str) -> type[Exception]:
    """What a peer raises for a codec whose library it lacks."""
    package = "aiokafka" if name.startswith("aiokafka") else "kafka"
    error: type[Exception] = importlib.import_module(f"{package}.errors").UnsupportedCodecError
    return error


def _each(parse: Parse, sets: RecordSets) -> Measure:
    def parse_all() -> None:
        for data in sets.sets:
            parse(data)

    return rate(parse_all, sets.record_count)


# ---- the parsers


def _decode_with_headers(data: bytes) -> object:
    return decode(data, headers=True)


def _aiokafka(data: bytes) -> Iterator[Any]:
    from aiokafka.record.memory_records import MemoryRecords

    return _checked(MemoryRecords(data))


def _kafka_python(data: bytes) -> Iterator[Any]:
    from kafka.record.memory_records import MemoryRecords

    return _checked(MemoryRecords(data))


def _checked(records: Any) -> Iterator[Any]:
    """The batches of a peer's parser. The records of each are iterated without a frame of ours in between."""
    while records.has_next():
        batch = records.next_batch()
        if not batch.validate_crc():
            raise ValueError("a peer found a wrong checksum")
        yield batch


def _drain(batches: Iterator[Any]) -> None:
    for batch in batches:
        for _ in batch:
            pass


def _lists(batches: Iterator[Any]) -> list[pa.Array]:
    offsets: list[int] = []
    timestamps: list[int | None] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for batch in batches:
        for record in batch:
            offsets.append(record.offset)
            timestamps.append(record.timestamp)
            keys.append(record.key)
            values.append(record.value)
    return [
        pa.array(offsets, pa.int64()),
        pa.array(timestamps, pa.int64()),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
    ]


def _lists_with_headers(batches: Iterator[Any]) -> list[pa.Array]:
    kept = [list(batch) for batch in batches]
    headers = [
        [{"key": key, "value": value} for key, value in record.headers] for batch in kept for record in batch
    ]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return [*_lists(iter(kept)), pa.array(headers, kind)]


def _check_same_records(sets: RecordSets) -> None:
    """A fast wrong answer would win every benchmark."""
    ours = decode(sets.sets[0]).batch
    theirs = _lists(_aiokafka(sets.sets[0]))
    for name, array in zip(("offset", "timestamp", "key", "value"), theirs, strict=True):
        if name == "timestamp" and sets.shape.magic == 0:
            continue  # format 0 has none, and each says so in its own way
        if not ours.column(name).cast(array.type).equals(array):
            raise AssertionError(f"ours and aiokafka disagree about {name} of {sets.shape}")

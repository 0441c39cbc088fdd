"""Requests as bytes, made before the clock starts, and where their answers keep what matters.

A dialect is the pair of versions and the message format that old or new clients use. Ours is measured in
the dialect of whom it is compared with: Kafka 0.9.0.1 knows message sets, Kafka 4 record batches only.

All answers to the produce requests of one topic have the same size in these versions, so a load generator
counts bytes and needs to look at the last answer alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

from benchmarks.workload import Row, Shape, built, rows
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.api.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    ProduceTopicResponse,
)
from ottla.wire.frames import SIZE_ROOM, seal
from ottla.wire.headers import encode_request_header, encode_response_header, response_body
from ottla.wire.schema import Request, Response, decode_prefix, encode

CLIENT_ID = "benchmark"
SIZE_BYTES = len(SIZE_ROOM)
FETCH_BYTES_MAX = 50 << 20
_TIMEOUT_MS = 30_000


@dataclass(frozen=True)
class Dialect:
    """How to speak: the message format, and a version of each API that has no tagged fields."""

    magic: int
    metadata_version: int
    produce_version: int
    fetch_version: int
    record_overhead_bytes: int

    def __str__(self) -> str:
        return f"format {self.magic}"


# 7 is the last Produce version whose answers all have one size. Record overheads are upper bounds.
NEW = Dialect(magic=2, metadata_version=4, produce_version=7, fetch_version=4, record_overhead_bytes=10)
OLD = Dialect(magic=0, metadata_version=0, produce_version=1, fetch_version=1, record_overhead_bytes=26)


@dataclass(frozen=True)
class ProduceShape:
    """What a produce request holds: as many values as fit in `request_bytes`, at least one."""

    value_bytes: int
    request_bytes: int
    dialect: Dialect = NEW

    @property
    def record_count(self) -> int:
        """Records in a request."""
        return max(1, self.request_bytes // (self.value_bytes + self.dialect.record_overhead_bytes))

    def __str__(self) -> str:
        if self.record_count == 1:
            return f"1 record of {self.value_bytes} B"
        size = "1 MB" if self.request_bytes >= 1_000_000 else f"{self.request_bytes >> 10} KB"
        return f"{size} requests, {self.value_bytes} B records, {self.dialect}"


@dataclass(frozen=True)
class ProduceFrames:
    """Produce requests to one partition, one behind the other in `data`; frame n ends at `ends[n]`."""

    topic: str
    shape: ProduceShape
    data: memoryview
    ends: tuple[int, ...]
    set_bytes: int
    answer_bytes: int

    @property
    def records_bytes(self) -> float:
        """Bytes of records in a request, on average."""
        return self.set_bytes / len(self.ends)

    def part(self, first: int, stop: int) -> memoryview:
        """The bytes of these frames."""
        return self.data[self.ends[first - 1] if first else 0 : self.ends[stop - 1]]


def produce_frames(topic: str, shape: ProduceShape, *, count: int, acks: int = 1) -> ProduceFrames:
    """`count` different produce requests for partition 0."""
    sets = _record_sets(shape, count)
    frames = [produce_frame(topic, shape.dialect, records, acks=acks) for records in sets]
    ends = tuple(accumulate(map(len, frames)))
    answer = _answer_bytes(topic, shape.dialect)
    return ProduceFrames(topic, shape, memoryview(b"".join(frames)), ends, sum(map(len, sets)), answer)


def produce_frame(topic: str, dialect: Dialect, records: bytes, *, acks: int = 1) -> bytes:
    """One produce request for partition 0."""
    topics = [ProduceTopic(name=topic, partition_data=[ProducePartition(index=0, records=records)])]
    request = ProduceRequest(acks=acks, timeout_ms=_TIMEOUT_MS, topic_data=topics)
    return frame(request, dialect.produce_version)


def base_offset(dialect: Dialect, answer: bytes) -> int:
    """The offset that a produce answer gives to its first record; an error in it is ours."""
    body = response_body(ProduceRequest.API, dialect.produce_version, answer[SIZE_BYTES:])
    response, _ = decode_prefix(ProduceResponse, dialect.produce_version, body)
    partition = response.responses[0].partition_responses[0]
    if partition.error_code:
        raise RuntimeError(f"produce was answered with error {partition.error_code}")
    return partition.base_offset


def error_at(topic: str) -> int:
    """Where a produce answer for one partition of `topic` has its error code."""
    # size, correlation id, topic count, name, partition count, partition
    return SIZE_BYTES + 4 + 4 + 2 + len(topic) + 4 + 4


def metadata_frame(topic: str, dialect: Dialect) -> bytes:
    """A question about a topic, which creates it."""
    return frame(MetadataRequest(topics=[MetadataTopic(name=topic)]), dialect.metadata_version)


def fetch_frame(topic: str, dialect: Dialect, *, offset: int, bytes_max: int) -> bytes:
    """A fetch of partition 0."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=bytes_max)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=FETCH_BYTES_MAX, topics=topics)
    return frame(request, dialect.fetch_version)


def fetch_head_bytes(topic: str, dialect: Dialect) -> int:
    """How much of a fetch answer precedes the records."""
    partition = FetchPartitionResponse(partition_index=0, error_code=0, high_watermark=0, records=b"")
    response = FetchResponse(responses=[FetchTopicResponse(topic=topic, partitions=[partition])])
    return len(_response_frame(FetchRequest, response, dialect.fetch_version))


def fetch_error(dialect: Dialect, head: bytes) -> int:
    """The error code in what precedes the records."""
    # The records' length is the last field of the head: as if there were none.
    whole = head[SIZE_BYTES:-SIZE_BYTES] + bytes(SIZE_BYTES)
    body = response_body(FetchRequest.API, dialect.fetch_version, whole)
    response, _ = decode_prefix(FetchResponse, dialect.fetch_version, body)
    return response.responses[0].partitions[0].error_code


def api_versions_frame() -> bytes:
    """The question that every client begins with."""
    return frame(ApiVersionsRequest(), 0)


def frame(request: Request[Any], version: int) -> bytes:
    """A request with its length and header."""
    header = encode_request_header(request.API, version, 0, CLIENT_ID)
    return b"".join(seal(encode(request, version, SIZE_ROOM + header)))


def _answer_bytes(topic: str, dialect: Dialect) -> int:
    partition = ProducePartitionResponse(index=0, error_code=0, base_offset=0)
    response = ProduceResponse(responses=[ProduceTopicResponse(name=topic, partition_responses=[partition])])
    return len(_response_frame(ProduceRequest, response, dialect.produce_version))


def _response_frame(kind: type[Request[Any]], response: Response, version: int) -> bytes:
    header = encode_response_header(kind.API, version, 0)
    return b"".join(seal(encode(response, version, SIZE_ROOM + header)))


def _record_sets(shape: ProduceShape, count: int) -> list[bytes]:
    kind = Shape(shape.value_bytes, batch_records=shape.record_count, magic=shape.dialect.magic)
    source = _of_today(rows(kind))
    return [built(kind, 0, list(islice(source, shape.record_count))) for _ in range(count)]


def _of_today(source: Iterable[Row]) -> Iterable[Row]:
    """The same records with the time of today: a broker deletes what is older than its retention."""
    now_ms = int(time.time() * 1000)
    return ((now_ms, key, value) for _, key, value in source)

"""Clients that ask a broker for too much. `main` is run in a process of its own."""

from __future__ import annotations

import contextlib
import struct
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import crc32c

from benchmarks.broker.load import Address, connected
from ottla.model.record_layout import (
    BATCH,
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_OVERHEAD,
    CRC,
    ENTRY_OVERHEAD,
)
from ottla.records.compression import Codec, compress
from ottla.records.messages import Message, MessageSet
from ottla.records.record_bytes import append_varint
from ottla.wire.api.create_topics import CreateTopic, CreateTopicConfig, CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from ottla.wire.headers import encode_request_header
from ottla.wire.schema import Request, encode

PARTITIONS, UNREAD, RECORDS = 10_000, 500, 1_000_000
_SIZE = struct.Struct(">i")

Run = Callable[[Address], None]


def _frame(request: Request[Any], version: int) -> bytes:
    head = encode_request_header(request.API, version, 1, "abuse")
    content = b"".join(bytes(part) for part in encode(request, version, head))
    return _SIZE.pack(len(content)) + content


def answered(address: Address, *frames: bytes) -> None:
    """Send requests one after the other, and read the answers."""
    with connected(address) as connection:
        connection.settimeout(300)
        for frame in frames:
            connection.sendall(frame)
            (left,) = _SIZE.unpack(connection.recv(_SIZE.size, 0x100))  # MSG_WAITALL
            while left:
                left -= len(connection.recv(min(left, 1 << 16)))


def creation(name: str, partitions: int = 1, **configs: str) -> bytes:
    return _frame(CreateTopicsRequest(topics=[_wanted(name, partitions, **configs)], timeout_ms=300_000), 5)


def _wanted(name: str, partitions: int = 1, **configs: str) -> CreateTopic:
    items = [CreateTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreateTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=items
    )


def _names(count: int) -> list[str]:
    unique = uuid.uuid4().hex[:8]
    return [f"abuse-{unique}-{number}" for number in range(count)]


def _topics_by_metadata() -> Run:
    wanted = [MetadataTopic(name=name) for name in _names(2000)]
    return lambda address: answered(address, _frame(MetadataRequest(topics=wanted), 9))


def _topics_by_request() -> Run:
    names = _names(1000)
    create = CreateTopicsRequest(topics=[_wanted(name) for name in names], timeout_ms=300_000)
    delete = DeleteTopicsRequest(topic_names=names, timeout_ms=300_000)
    return lambda address: answered(address, _frame(create, 5), _frame(delete, 3))


def _large_topic() -> Run:
    (name,) = _names(1)
    delete = DeleteTopicsRequest(topic_names=[name], timeout_ms=300_000)
    return lambda address: answered(address, creation(name, PARTITIONS), _frame(delete, 3))


def _unknown_topics() -> Run:
    wanted = [MetadataTopic(name=name) for name in _names(99_000)]
    question = _frame(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 9)
    return lambda address: answered(address, *[question] * 5)


def _wide_fetches() -> Run:
    (name,) = _names(1)
    items = [FetchPartition(partition=index, partition_max_bytes=1) for index in range(99_000)]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1, topics=[FetchTopic(topic=name, partitions=items)]
    )
    return lambda address: answered(address, *[_frame(request, 11)] * 5)


def _many_configs() -> Run:
    (name,) = _names(1)
    wanted = DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
    question = _frame(DescribeConfigsRequest(resources=[wanted] * 2000), 1)
    return lambda address: answered(address, creation(name), question)


def _tiny_records(time_ms: int) -> bytes:
    """A compressed batch of as many records as a batch may have, with empty keys and values."""
    body = bytearray()
    for number in range(RECORDS):
        record = bytearray(2)
        append_varint(record, number)
        append_varint(body, len(record) + 3)
        body += record + bytes(3)
    packed = compress(Codec.ZSTD, body)
    size = BATCH_OVERHEAD - ENTRY_OVERHEAD + len(packed)
    times = (time_ms, time_ms)
    head = BATCH.pack(0, size, -1, 2, 0, Codec.ZSTD, RECORDS - 1, *times, -1, -1, -1, RECORDS)
    batch = bytearray(head + packed)
    CRC.pack_into(batch, BATCH_CRC_AT, crc32c.crc32c(bytes(batch[BATCH_ATTRIBUTES_AT:])))
    return bytes(batch)


def _produced(topic: str, records: bytes) -> bytes:
    item = ProducePartition(index=0, records=records)
    topics = [ProduceTopic(name=topic, partition_data=[item])]
    return _frame(ProduceRequest(acks=-1, timeout_ms=300_000, topic_data=topics), 8)


def _tiny_keys() -> Run:
    (name,) = _names(1)
    question = _produced(name, _tiny_records(int(time.time() * 1000)))
    return lambda address: answered(address, creation(name, cleanup_policy="compact"), *[question] * 5)


def _times_of_tiny_records() -> Run:
    (name,) = _names(1)
    time_ms = int(time.time() * 1000)
    stored = _produced(name, _tiny_records(time_ms))
    wanted = ListOffsetsTopic(
        name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=time_ms)]
    )
    question = _frame(ListOffsetsRequest(replica_id=-1, topics=[wanted] * 6), 5)
    return lambda address: answered(address, creation(name), stored, *[question] * 5)


def _unread_answers() -> Run:
    (name,) = _names(1)
    large = MessageSet.of([Message(b"x" * 900_000, None, int(time.time() * 1000))]).data
    item = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, topics=[FetchTopic(topic=name, partitions=[item])]
    )
    question = _frame(request, 11)

    def run(address: Address) -> None:
        answered(address, creation(name), *[_produced(name, bytes(large))] * 20)
        with contextlib.ExitStack() as stack:
            for _ in range(UNREAD):
                stack.enter_context(connected(address)).sendall(question * 3)
            time.sleep(5)

    return run


def _large_joins() -> Run:
    protocol = JoinGroupProtocol(name="range", metadata=bytes(20 << 20))
    requests = [
        _frame(
            JoinGroupRequest(
                group_id=name,
                session_timeout_ms=1_800_000,
                rebalance_timeout_ms=1_800_000,
                member_id="",
                protocol_type="consumer",
                protocols=[protocol],
            ),
            3,
        )
        for name in _names(10)
    ]

    def run(address: Address) -> None:
        for request in requests:
            with connected(address) as connection:
                connection.sendall(request)

    return run


ABUSES: dict[str, Callable[[], Run]] = {
    "2,000 topics made by a Metadata request": _topics_by_metadata,
    "1,000 topics created by one request, and deleted": _topics_by_request,
    "a topic of 10,000 partitions created and deleted": _large_topic,
    "Metadata of 99,000 unknown topics, 5 times": _unknown_topics,
    "Fetch of 99,000 partitions, 5 times": _wide_fetches,
    "DescribeConfigs of 2,000 topics": _many_configs,
    "1,000,000 tiny records to a compacted topic, 5 times": _tiny_keys,
    "30 look-ups by time in 1,000,000 tiny records": _times_of_tiny_records,
    "500 connections that never read": _unread_answers,
    "10 JoinGroups of 20 MB": _large_joins,
}


def main(name: str, host: str, port: str) -> None:
    """Prepare an abuse, wait for a line, run it."""
    run = ABUSES[name]()
    print("ready", flush=True)
    sys.stdin.readline()
    run((host, int(port)))

"""A client of a few lines that can also misbehave: raw bytes in any pieces, and calls in any version."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from ottla.model.closing import Closing
from ottla.wire.api.create_topics import CreateTopic, CreateTopicConfig, CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)
from ottla.wire.headers import decode_correlation_id, encode_request_header, response_body
from ottla.wire.schema import Request, Response, decode, encode
from tests.broker.faults.batches import Stored, batch, end_offset, stored, whole

R = TypeVar("R", bound=Response)

TIMEOUT_S = 120
"""A hang, not a slow answer."""

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS, DELETE_TOPICS = 8, 12, 5, 9, 5, 3


def frame(request: Request[Any], version: int, correlation_id: int = 1) -> bytes:
    """A whole request as it goes over the wire."""
    head = encode_request_header(request.API, version, correlation_id, "faults")
    return framed(b"".join(bytes(part) for part in encode(request, version, head)))


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def produce_request(
    topic: str, records: bytes | bytearray, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    item = ProducePartition(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[ProduceTopic(name=topic, partition_data=[item])]
    )


def fetch_request(
    topic: str, offset: int = 0, partition: int = 0, max_bytes: int = 1 << 20, wait_ms: int = 0
) -> FetchRequest:
    item = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[item])],
    )


class RawClient(Closing):
    """One connection, blocking. Every wait ends after TIMEOUT_S with an error."""

    def __init__(self, port: int, *, receive_buffer: int = 0) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def close(self) -> None:
        self.socket.close()

    def fileno(self) -> int:
        return self.socket.fileno()

    # --- bytes

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """One frame, without its size. Raises ConnectionError if the broker hangs up instead."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self.socket.recv_into(view)
            if not count:
                raise ConnectionResetError(f"closed with {len(view)} of {size} bytes missing")
            view = view[count:]
        return bytes(data)

    def rest(self) -> bytes:
        """What comes until the broker closes the connection; a timeout if it does not."""
        data = bytearray()
        try:
            while piece := self.socket.recv(1 << 16):
                data += piece
        except ConnectionResetError:
            pass  # it closed with our bytes unread, which is closing too
        return bytes(data)

    # --- calls

    def call(self, request: Request[R], version: int) -> R:
        self._correlation_id += 1
        self.send(frame(request, version, self._correlation_id))
        return self.answer(request, version, self._correlation_id)

    def answer(self, request: Request[R], version: int, correlation_id: int) -> R:
        """The answer to a request that was sent before."""
        data = self.receive()
        assert decode_correlation_id(data) == correlation_id
        return cast(R, decode(request.API.response, version, response_body(request.API, version, data)))

    def create(self, topic: str, partitions: int = -1, config: Mapping[str, str] | None = None) -> int:
        """The error code."""
        configs = [CreateTopicConfig(name=name, value=value) for name, value in (config or {}).items()]
        wanted = CreateTopic(
            name=topic, num_partitions=partitions, replication_factor=-1, assignments=[], configs=configs
        )
        return self.call(CreateTopicsRequest(topics=[wanted]), CREATE_TOPICS).topics[0].error_code

    def delete(self, topic: str) -> int:
        """The error code."""
        return self.call(DeleteTopicsRequest(topic_names=[topic]), DELETE_TOPICS).responses[0].error_code

    def topics(self) -> dict[str, int]:
        """All topics, with their numbers of partitions."""
        found = self.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), METADATA).topics
        return {topic.name or "": len(topic.partitions) for topic in found}

    def produce(
        self, topic: str, records: bytes | bytearray, partition: int = 0, version: int = PRODUCE
    ) -> ProducePartitionResponse:
        response = self.call(produce_request(topic, records, partition), version)
        return response.responses[0].partition_responses[0]

    def fetch(
        self, topic: str, offset: int = 0, partition: int = 0, version: int = FETCH, max_bytes: int = 1 << 20
    ) -> FetchPartitionResponse:
        request = fetch_request(topic, offset, partition, max_bytes)
        return self.call(request, version).responses[0].partitions[0]

    def records(self, topic: str, partition: int = 0, first: int = 0) -> list[Stored]:
        """Everything in a partition, from its start or from an offset; each checksum is looked at."""
        offset, end = max(first, self.offset(topic, -2, partition)), self.offset(topic, -1, partition)
        found: list[Stored] = []
        while offset < end:
            answer = self.fetch(topic, offset, partition)
            assert answer.error_code == 0, f"fetch of {topic}-{partition} at {offset}: {answer.error_code}"
            batches = list(whole(bytes(answer.records or b"")))
            assert batches, f"nothing at offset {offset} of {topic}-{partition}, which ends at {end}"
            found += (record for one in batches for record in stored(one) if record.offset >= offset)
            offset = end_offset(batches[-1])
        return found

    def offset(self, topic: str, timestamp: int = -1, partition: int = 0) -> int:
        """The end of a partition; -2 is its start. Raises AssertionError for an error."""
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        answer = self.call(request, LIST_OFFSETS).topics[0].partitions[0]
        assert answer.error_code == 0, f"ListOffsets of {topic}-{partition}: error {answer.error_code}"
        return answer.offset


def answered(port: int, client: RawClient, request: Request[R], version: int) -> R:
    """The answer to a long request, before which another client was served: by the topic "honest"."""
    client.send(frame(request, version))
    served = 0
    with RawClient(port) as other:
        while not select.select([client], [], [], 0)[0]:
            assert other.produce("honest", batch((b"k", b"v"))).error_code == 0
            served += 1
    assert served > 1
    return client.answer(request, version, 1)

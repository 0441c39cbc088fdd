"""The express lane for produce requests that look like one seen before.

A producer's requests differ in the correlation id and the records; the rest (client, acks, topic, partition)
is the same bytes again and again, and so is the answer but for its offsets. So the first request of a kind
goes the general way, and leaves its `Shape`: the bytes around the records, and the answer with its holes. The
next ones are compared instead of decoded, and their answer is filled in instead of encoded. No layout is
written here twice: both come from what the general codec made.

The lane only ever accepts. Whatever is not exactly so (several partitions, acks=0, a duplicate, anything to
refuse) goes the general way, which does everything again from the start and knows every error.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.handlers import produce
from ottla.broker.turn import Failures
from ottla.log.batch_header import named
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, RemoteProtocolError, StorageError
from ottla.wire.api.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    ProduceTopicResponse,
)
from ottla.wire.frames import SIZE_ROOM, seal
from ottla.wire.headers import encode_response_header
from ottla.wire.primitives import read_varint
from ottla.wire.schema import encode
from ottla.wire.server_connection import Call

if TYPE_CHECKING:
    from ottla.broker.connection import Connection
    from ottla.broker.node import Node

SHAPES_MAX = 256
"""Of one connection: a producer with more partitions on one broker sends several in a request anyway."""

_HEAD_BYTES = 4  # API key and version, in front of the correlation id
_REST_AT = 8
_CORRELATION_AT = 4
_FLEXIBLE_SINCE = 9
_TAGS = bytes(3)  # of partition, topic and request, behind the records
_INT32 = struct.Struct(">i")
_OFFSETS = struct.Struct(">qqq")
_MARKS = (0x0102030405060708, 0x1112131415161718, 0x2122232425262728)
_SINCE = 5  # from there on the answer has base offset, append time and log start, in a row


class Shape:
    """What requests of one kind have in common, and their answer."""

    __slots__ = ("_offsets_at", "_template", "acks", "head", "index", "is_flexible", "topic", "version")

    def __init__(self, call: Call, request: ProduceRequest) -> None:
        self.topic = request.topic_data[0]
        self.index = self.topic.partition_data[0].index
        self.acks = request.acks
        self.version = call.version
        self.head = bytes(call.frame[:_HEAD_BYTES])
        self.is_flexible = call.version >= _FLEXIBLE_SINCE
        self._template = _template(self.topic, self.index, call.version)
        self._offsets_at = self._template.index(_OFFSETS.pack(*_MARKS))

    def answer(self, correlation_id: memoryview, placed: produce.Placed) -> bytearray:
        """The frame of the answer."""
        _, base_offset, append_time_ms, start_offset = placed
        data = bytearray(self._template)
        data[_CORRELATION_AT:_REST_AT] = correlation_id
        _OFFSETS.pack_into(data, self._offsets_at, base_offset, append_time_ms, start_offset)
        return data

    def records(self, frame: memoryview, at: int) -> memoryview | None:
        """The record set, whose size stands at `at`; None if the frame does not end as it should."""
        if not self.is_flexible:
            start = at + _INT32.size
            is_whole = len(frame) >= start and _INT32.unpack_from(frame, at)[0] == len(frame) - start
            return frame[start:] if is_whole else None
        size, start = read_varint(frame, at, "record set")
        end = start + size - 1
        return frame[start:end] if frame[end:] == _TAGS else None


def _template(topic: ProduceTopic, index: int, version: int) -> bytes:
    """The answer as the general codec writes it, with marks for what differs."""
    base_offset, append_time_ms, start_offset = _MARKS
    answer = ProducePartitionResponse(
        index=index,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=start_offset,
    )
    topics = [ProduceTopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[answer])]
    header = encode_response_header(ProduceRequest.API, version, 0)
    return b"".join(seal(encode(ProduceResponse(responses=topics), version, SIZE_ROOM + header)))


def _varint_bytes(number: int) -> int:
    return max(1, (number.bit_length() + 6) // 7)


class Waiting(NamedTuple):
    """A call that waits for the write: its place on the connection, its answer, and what it is about."""

    sequence: int
    answer: bytearray
    placed: produce.Placed
    frame: memoryview


class Express:
    """The lane of one connection. Owned by the loop."""

    def __init__(self, node: Node, connection: Connection) -> None:
        self._node = node
        self._turn = node.cluster.turn
        self._connection = connection
        self._shapes: dict[bytes, Shape] = {}  # by the bytes between correlation id and record set
        self._prefix_ends: list[int] = []  # where those bytes can end
        self._waiting: list[Waiting] = []  # of this turn
        self._turn_number = -1

    def learn(self, call: Call, request: ProduceRequest) -> None:
        """Remember the shape of a request that went the general way, if the lane is for its kind."""
        topics = request.topic_data
        if call.version < _SINCE or len(topics) != 1 or len(topics[0].partition_data) != 1:
            return
        records = topics[0].partition_data[0].records
        if not records:
            return
        shape = Shape(call, request)
        if shape.is_flexible:
            end = len(call.frame) - len(_TAGS) - len(records) - _varint_bytes(len(records) + 1)
        else:
            end = len(call.frame) - len(records) - _INT32.size
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
            self._prefix_ends.clear()
        self._shapes[bytes(call.frame[_REST_AT:end])] = shape
        if end not in self._prefix_ends:
            self._prefix_ends.append(end)

    def take(self, frame: memoryview, sequence: int) -> bool:
        """Stage the request of a frame, if it is of a known shape and nothing is to be said against it."""
        for end in self._prefix_ends:
            shape = self._shapes.get(bytes(frame[_REST_AT:end]))
            if shape is not None and frame[:_HEAD_BYTES] == shape.head and not self._node.faults:
                return self._stage(frame, end, sequence, shape)
        return False

    def _stage(self, frame: memoryview, end: int, sequence: int, shape: Shape) -> bool:
        try:
            records = shape.records(frame, end)
            if records is None:
                return False
            topic: str = shape.topic.name
            if shape.version >= produce.IDS_SINCE:
                topic = self._node.cluster.topic_name(shape.topic.topic_id)
            placed = produce.place(self._node, topic, shape.index, records, shape.version, shape.acks)
        except (KafkaError, StorageError, RemoteProtocolError):
            return False
        self._node.counts[ProduceRequest.API.key] += 1
        if self._turn_number != self._turn.number:
            self._turn_number = self._turn.number
            self._waiting = []
            self._turn.then(partial(self._written, self._waiting))
        answer = shape.answer(frame[_CORRELATION_AT:_REST_AT], placed)
        self._waiting.append(named(Waiting, (sequence, answer, placed, frame)))
        return True

    def _written(self, waiting: list[Waiting], failures: Failures) -> None:
        for sequence, answer, placed, frame in waiting:
            failure = failures.get(placed.partition) if failures else None
            if failure is None:
                self._connection.finish(sequence, answer)
            else:
                self._connection.refuse(sequence, frame, Code.KAFKA_STORAGE_ERROR)

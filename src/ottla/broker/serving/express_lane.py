"""The express lane for produce requests that look like one seen before.

A producer's requests differ in the correlation id and the records; the rest (client, acks, topic, partition)
is the same bytes again and again, and so is the answer, except for its offsets. So the first request of a
kind goes the general way and leaves its `RequestShape`: the bytes around the records, and the answer with
gaps. The next requests are compared instead of decoded, and their answers are filled in instead of encoded.
Both come from what the general codec made, so no layout is written twice.

The lane only accepts. Every other request (several partitions, acks=0, a duplicate, the first batch of a
transaction, anything to refuse) goes the general way, which starts from the beginning and knows every error.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Any, NamedTuple, Protocol

from ottla.broker.serving.faults import FaultRules
from ottla.broker.serving.served_broker import ServedBroker
from ottla.broker.serving.traffic import Traffic
from ottla.broker.storage.appending import AppendedRecords
from ottla.broker.storage.open_transactions import NotAdmitted
from ottla.broker.storage.turn import Failures
from ottla.log.batch_header import is_transactional, named
from ottla.log.record_checks import LongCheck
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, RemoteProtocolError, StorageError
from ottla.model.record_layout import OFFSET
from ottla.wire.api.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    ProduceTopicResponse,
)
from ottla.wire.frames import SIZE_ROOM, seal
from ottla.wire.headers import encode_response_header
from ottla.wire.primitives import Buffer, read_varint
from ottla.wire.schema import encode
from ottla.wire.server_connection import ReceivedRequest

SHAPES_MAX = 256
"""How many shapes a connection may have: a producer with more partitions sends several in a
request anyway.
"""

_HEAD_BYTES = 4  # API key and version, in front of the correlation id
_REST_AT = 8
_CORRELATION_AT = 4
_FLEXIBLE_SINCE = 9
_TAGS = bytes(3)  # of partition, topic and request, after the records
_INT32 = struct.Struct(">i")
# What answers say in a row, by the first version: base offset, append time, start of the log.
_OFFSETS_SINCE = ((5, struct.Struct(">qqq")), (2, struct.Struct(">qq")), (0, struct.Struct(">q")))
_MARKS = (0x0102030405060708, 0x1112131415161718, 0x2122232425262728)
TOPIC_IDS_SINCE = 13
"""The first version of Produce that names topics by id."""


class RequestShape:
    """The bytes that requests of one kind have in common, and their answer."""

    __slots__ = (
        "_answered",
        "_offsets",
        "_offsets_at",
        "_template",
        "acks",
        "has_transaction",
        "head",
        "index",
        "is_flexible",
        "topic",
        "version",
    )

    def __init__(self, call: ReceivedRequest, request: ProduceRequest) -> None:
        self.topic = request.topic_data[0]
        self.index = self.topic.partition_data[0].index
        self.acks = request.acks
        self.has_transaction = request.transactional_id is not None
        self.version = call.version
        self.head = bytes(call.frame[:_HEAD_BYTES])
        self.is_flexible = call.version >= _FLEXIBLE_SINCE
        self._template = _template(self.topic, self.index, call.version)
        self._offsets = next(fields for since, fields in _OFFSETS_SINCE if call.version >= since)
        count = self._offsets.size // OFFSET.size
        self._answered = slice(1, 1 + count)
        self._offsets_at = self._template.index(self._offsets.pack(*_MARKS[:count]))

    def answer(self, correlation_id: memoryview, appended: AppendedRecords) -> bytearray:
        """Return the frame of the answer."""
        fields: tuple[Any, ...] = appended
        data = bytearray(self._template)
        data[_CORRELATION_AT:_REST_AT] = correlation_id
        self._offsets.pack_into(data, self._offsets_at, *fields[self._answered])
        return data

    def records(self, frame: memoryview, at: int) -> memoryview | None:
        """Return the record set, whose size is at `at`; None if the frame does not end with it."""
        if not self.is_flexible:
            start = at + _INT32.size
            is_whole = len(frame) >= start and _INT32.unpack_from(frame, at)[0] == len(frame) - start
            return frame[start:] if is_whole else None
        size, start = read_varint(frame, at, "record set")
        end = start + size - 1
        return frame[start:end] if frame[end:] == _TAGS else None


def _template(topic: ProduceTopic, index: int, version: int) -> bytes:
    """Return the answer as the general codec writes it, with marks for the offsets."""
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


class AppendedCall(NamedTuple):
    """A call that waits for the write. `sequence` is its place among the connection's calls."""

    sequence: int
    answer: bytearray
    appended: AppendedRecords
    frame: memoryview


class LaneConnection(Protocol):
    """How calls of the lane end."""

    def finish(self, sequence: int, answer: Buffer) -> None:
        """Answer a call."""

    def refuse(self, sequence: int, frame: memoryview, error: Code) -> None:
        """Answer a call with an error."""


class ExpressLane:
    """The lane of one connection. Owned by the loop."""

    def __init__(
        self, broker: ServedBroker, faults: FaultRules, traffic: Traffic, connection: LaneConnection
    ) -> None:
        self._store = broker.store
        self._limits = broker.quotas.limits
        self._append = broker.appender.append
        self._turn = broker.runtime.turn
        self._faults = faults
        self._calls = traffic.calls
        self._connection = connection
        self._shapes: dict[bytes, RequestShape] = {}  # by the bytes between correlation id and record set
        self._prefix_ends: list[int] = []  # where those bytes can end
        self._waiting: list[AppendedCall] = []  # of this turn
        self._turn_number = -1

    def learn(self, call: ReceivedRequest, request: ProduceRequest) -> None:
        """Remember the shape of a request that went the general way, if the lane can serve its kind."""
        topics = request.topic_data
        if len(topics) != 1 or len(topics[0].partition_data) != 1:
            return
        records = topics[0].partition_data[0].records
        if not records:
            return
        shape = RequestShape(call, request)
        if shape.is_flexible:
            end = len(call.frame) - len(_TAGS) - len(records) - _varint_bytes(len(records) + 1)
        else:
            end = len(call.frame) - len(records) - _INT32.size
        if len(self._shapes) >= SHAPES_MAX:
            self.forget()
        self._shapes[bytes(call.frame[_REST_AT:end])] = shape
        if end not in self._prefix_ends:
            self._prefix_ends.append(end)

    def forget(self) -> None:
        """Forget all shapes: the next request of each kind goes the general way."""
        self._shapes.clear()
        self._prefix_ends.clear()

    def take(self, frame: memoryview, sequence: int) -> bool:
        """Stage a frame's request if its shape is known and it is valid. Returns whether it was staged."""
        for end in self._prefix_ends:
            shape = self._shapes.get(bytes(frame[_REST_AT:end]))
            if shape is not None and frame[:_HEAD_BYTES] == shape.head:
                if self._faults.rules or self._limits.has_clients:
                    return False
                return self._stage(frame, end, sequence, shape)
        return False

    def _stage(self, frame: memoryview, end: int, sequence: int, shape: RequestShape) -> bool:
        try:
            records = shape.records(frame, end)
            if records is None or (not shape.has_transaction and is_transactional(records)):
                return False
            topic: str = shape.topic.name
            if shape.version >= TOPIC_IDS_SINCE:
                topic = self._store.topic_name(shape.topic.topic_id)
            appended = self._append(topic, shape.index, records, shape.version, shape.acks)
        except (KafkaError, StorageError, RemoteProtocolError, LongCheck, NotAdmitted):
            return False
        self._calls[ProduceRequest.API.key] += 1
        if self._turn_number != self._turn.number:
            self._turn_number = self._turn.number
            self._waiting = []
            self._turn.then(partial(self._written, self._waiting))
        answer = shape.answer(frame[_CORRELATION_AT:_REST_AT], appended)
        self._waiting.append(named(AppendedCall, (sequence, answer, appended, frame)))
        return True

    def _written(self, waiting: list[AppendedCall], failures: Failures) -> None:
        for sequence, answer, appended, frame in waiting:
            failure = failures.get(appended.partition) if failures else None
            if failure is None:
                self._connection.finish(sequence, answer)
            else:
                self._connection.refuse(sequence, frame, Code.KAFKA_STORAGE_ERROR)

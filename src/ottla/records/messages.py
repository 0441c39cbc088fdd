"""Single messages, by the names of Kafka's classic consumer, made from columns.

Message              key, value, timestamp, headers
MessageSet           bytes of any record set, or messages plus a codec; iterating it makes the rows
MessageAndOffset     what a set yields
MessageAndMetadata   what a consumer yields: a message with its topic, partition, offset and deserializers;
                     `rows` makes them
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.model.record_layout import NO_TIMESTAMP
from ottla.records.builder import BATCH_BYTES, Stamp, encode
from ottla.records.columns import HEADERS
from ottla.records.compression import Codec
from ottla.records.entries import read_only, scan, verified
from ottla.records.reader import Decoded, decode

Key = TypeVar("Key")
Value = TypeVar("Value")
Headers = tuple[tuple[str, bytes | None], ...]


class UnreadHeaders(tuple[tuple[str, bytes | None], ...]):
    """Replaces headers that were not read: using them raises ConfigError."""

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        raise ConfigError("headers were not read, which is faster: set include_headers=True to have them")

    __len__ = __getitem__ = __iter__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "<not read>"


UNREAD_HEADERS = UnreadHeaders()


class TimestampType(IntEnum):
    """Whose clock a timestamp is from, numbered as Kafka does."""

    NONE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Message(NamedTuple):
    """One record. A null value is a tombstone.

    Kafka's class is the bytes of a message of format 0 or 1. `magic`, `attributes`, `crc` and `size` are
    fields of these bytes (`to_bytes`), as an old client gets them; records of format 2 have no such fields.
    """

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = NO_TIMESTAMP
    headers: Headers = ()
    timestamp_type: TimestampType = TimestampType.CREATE_TIME

    @property
    def magic(self) -> int:
        """1, or 0 if there is no timestamp, for which format 0 has no room."""
        return 0 if self.timestamp_ms == NO_TIMESTAMP else 1

    @property
    def attributes(self) -> int:
        """8 if the timestamp is the broker's, else 0: a message by itself is not compressed."""
        return 8 if self.magic and self.timestamp_type == TimestampType.LOG_APPEND_TIME else 0

    @property
    def crc(self) -> int:
        """CRC-32 of everything after the checksum."""
        return zlib.crc32(self._body())

    @property
    def size(self) -> int:
        """The number of bytes, with the checksum; a message set adds 12 for offset and size."""
        return 4 + len(self._body())

    def to_bytes(self) -> bytes:
        """Return the message as Kafka 0.8 to 0.10 store and send it. These formats have no headers."""
        body = self._body()
        return struct.pack(">I", zlib.crc32(body)) + body

    def _body(self) -> bytes:
        fixed = struct.pack(">BB", self.magic, self.attributes)
        if self.magic:
            fixed += struct.pack(">q", self.timestamp_ms)
        parts = (
            b"\xff\xff\xff\xff" if part is None else struct.pack(">i", len(part)) + part
            for part in (self.key, self.value)
        )
        return fixed + b"".join(parts)


class MessageAndOffset(NamedTuple):
    """A message and its offset."""

    message: Message
    offset: int

    @property
    def next_offset(self) -> int:
        """The offset after this message."""
        return self.offset + 1


@dataclass(frozen=True, slots=True)
class Origin(Generic[Key, Value]):
    """What all messages of one partition share."""

    topic: str
    partition: int
    key_deserializer: Callable[[bytes], Key]
    value_deserializer: Callable[[bytes], Value]


class _Row(NamedTuple):
    """A tuple, because it is the fastest class with named fields to create."""

    offset: int
    raw_key: bytes | None
    raw_value: bytes | None
    timestamp_ms: int = NO_TIMESTAMP
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    headers: Headers = ()
    origin: Origin[Any, Any] = Origin("", -1, bytes, bytes)


class MessageAndMetadata(_Row, Generic[Key, Value]):
    """A message as a consumer hands it over. Decoders run on access, and are never called for None.

    `timestamp_ms` is since 1970, -1 for none. Headers are there if `include_headers` was set.
    """

    __slots__ = ()

    @property
    def topic(self) -> str:
        """The topic of the message."""
        return self.origin.topic

    @property
    def partition(self) -> int:
        """The partition of the message."""
        return self.origin.partition

    @property
    def key(self) -> Key | None:
        """The decoded key."""
        return None if self.raw_key is None else self.origin.key_deserializer(self.raw_key)

    @property
    def value(self) -> Value | None:
        """The decoded value; None is a tombstone."""
        return None if self.raw_value is None else self.origin.value_deserializer(self.raw_value)

    @property
    def message(self) -> Value | None:
        """The value under its name in the old consumer."""
        return self.value

    @property
    def raw_message(self) -> Message:
        """The message with its bytes, without topic, partition and offset."""
        return Message(self.raw_value, self.raw_key, self.timestamp_ms, self.headers, self.timestamp_type)

    @property
    def next_offset(self) -> int:
        """The offset after this message."""
        return self.offset + 1

    def __repr__(self) -> str:
        origin = f"{self.topic}-{self.partition}@{self.offset}"
        return f"{type(self).__name__}({origin}, key={self.raw_key!r}, value={self.raw_value!r})"


class RawMessageAndMetadata(MessageAndMetadata[bytes, bytes]):
    """A message without decoders: key and value are fields, which are read three times as fast as
    properties.
    """

    __slots__ = ()

    key = _Row.__dict__["raw_key"]
    value = _Row.__dict__["raw_value"]
    message = _Row.__dict__["raw_value"]


class MessageSet:
    """A record set of any format. Nothing is decoded before it is iterated."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.data = memoryview(data)

    @classmethod
    def of(
        cls,
        messages: Iterable[Message],
        codec: Codec | str = Codec.NONE,
        *,
        magic: int = 2,
        base_offset: int = 0,
        batch_bytes: int = BATCH_BYTES,
    ) -> MessageSet:
        """Encode messages, compressed by `codec`, with offsets from `base_offset`."""
        batches = encode(
            to_columns(messages),
            magic=magic,
            codec=codec,
            batch_bytes=batch_bytes,
            stamp=Stamp(base_offset=base_offset),
        )
        return cls(batches[0] if len(batches) == 1 else b"".join(batches))

    @property
    def size_in_bytes(self) -> int:
        """All bytes, with a partial last entry."""
        return len(self.data)

    @property
    def valid_bytes(self) -> int:
        """Bytes of whole entries up to the first damaged one; compressed ones are not looked into."""
        return verified(scan(read_only(self.data), verify_crc=True)).valid_bytes

    def decoded(self, *, from_offset: int = 0, headers: bool = False) -> Iterator[Decoded]:
        """The columns; in several pieces only where they would exceed the limits of `decode`.

        Raises CorruptRecord after the last sound record.
        """
        at = 0
        while True:
            piece = decode(self.data[at:], from_offset=from_offset, headers=headers)
            yield piece
            at += piece.valid_bytes
            from_offset = piece.next_offset
            if piece.damage is not None:
                raise piece.damage
            if not piece.valid_bytes or at >= len(self.data):
                return

    def __iter__(self) -> Iterator[MessageAndOffset]:
        """Every message, those inside compressed ones too."""
        for piece in self.decoded(headers=True):
            yield from to_messages(piece.batch)


def to_columns(messages: Iterable[Message]) -> pa.RecordBatch:
    """Columns as `encode` takes them."""
    rows = list(messages)
    columns = {
        "key": pa.array([row.key for row in rows], pa.binary()),
        "value": pa.array([row.value for row in rows], pa.binary()),
        "timestamp": pa.array([row.timestamp_ms for row in rows], pa.int64()),
    }
    if any(row.headers for row in rows):
        headers = [[{"key": key, "value": value} for key, value in row.headers] for row in rows]
        columns["headers"] = pa.array(headers, HEADERS)
    return pa.record_batch(columns)


def to_messages(batch: pa.RecordBatch) -> Iterator[MessageAndOffset]:
    """Rows of decoded columns."""
    keys, values = binary_values(batch.column("key")), binary_values(batch.column("value"))
    offsets = batch.column("offset").to_numpy().tolist()
    columns = (values, keys, timestamp_values(batch), header_values(batch), timestamp_type_values(batch))
    for offset, *fields in zip(offsets, *columns, strict=True):
        yield MessageAndOffset(Message(*fields), offset)


def binary_values(array: pa.Array) -> list[bytes | None]:
    """The values as Python bytes, made by a loop of Arrow's."""
    return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


def timestamp_values(batch: pa.RecordBatch) -> list[int]:
    """Milliseconds, NO_TIMESTAMP where there is none."""
    column = batch.column("timestamp").view(pa.int64())
    filled = column.fill_null(NO_TIMESTAMP) if column.null_count else column
    return filled.to_numpy().tolist()  # type: ignore[no-any-return]


def timestamp_type_values(batch: pa.RecordBatch) -> list[TimestampType]:
    """Whose clock each timestamp is from."""
    kinds = batch.column("timestamp_type").to_numpy()
    if len(kinds) and (kinds == kinds[0]).all():
        return [_TIMESTAMP_TYPES[int(kinds[0])]] * len(kinds)
    return [_TIMESTAMP_TYPES[kind] for kind in kinds.tolist()]


_TIMESTAMP_TYPES = {int(kind): kind for kind in TimestampType}


def header_values(batch: pa.RecordBatch) -> list[Headers]:
    """The headers of each row; UNREAD_HEADERS where the batch has no such column."""
    if "headers" not in batch.schema.names:
        return [UNREAD_HEADERS] * batch.num_rows
    if not len(batch.column("headers").values):
        return [()] * batch.num_rows
    rows = batch.column("headers").to_pylist()
    return [tuple((header["key"], header["value"]) for header in row) for row in rows]

"""The record formatters of kafka-console-consumer, by the names of Kafka's classes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from ottla.cli.kafka import transaction_records
from ottla.cli.kafka.offset_records import FORMATTERS, formatted
from ottla.cli.kafka.tool import ToolRefused
from ottla.records.messages import MessageAndMetadata, TimestampType

Record = MessageAndMetadata[Any, Any]
Formatter = Callable[[Record], bytes]
Decoder = Callable[[bytes], bytes]

_TIMES = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}
_NUMBERS = {"LongDeserializer": ">q", "IntegerDeserializer": ">i", "ShortDeserializer": ">h"}
_NOT_PRESENT = b"NOT_PRESENT"


def formatter(class_name: str, properties: Mapping[str, str]) -> Formatter:
    """A formatter by its class, with or without a package."""
    if class_name in FORMATTERS:
        return lambda record: formatted(class_name, record.raw_key, record.raw_value)
    if class_name == transaction_records.FORMATTER:
        return lambda record: transaction_records.formatted(record.raw_key, record.raw_value)
    name = class_name.rpartition(".")[2]
    if name == "DefaultMessageFormatter":
        return DefaultFormatter(properties).write
    if name == "NoOpMessageFormatter":
        return lambda _: b""
    if name == "ChecksumMessageFormatter":
        prefix = f"{properties['topic']}:" if "topic" in properties else ""
        return lambda record: f"{prefix}checksum:{_checksum(record)}\n".encode()
    raise ToolRefused(
        f"{class_name} is not known here; DefaultMessageFormatter, NoOpMessageFormatter, "
        f"ChecksumMessageFormatter, {', '.join([*FORMATTERS, transaction_records.FORMATTER])} are"
    )


class DefaultFormatter:
    """Prints the value, and on request time, partition, offset, headers and key."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def wants(name: str, default: str = "false") -> bool:
            return properties.get(f"print.{name}", default).strip().lower() == "true"

        def separator(name: str, default: str) -> bytes:
            return properties.get(name, default).encode()

        self._null = separator("null.literal", "null")
        self._column_end = separator("key.separator", "\t")
        self._line_end = separator("line.separator", "\n")
        self._header_end = separator("headers.separator", ",")
        self._key, self._value, self._header = (
            _decoder(properties.get(f"{name}.deserializer")) for name in ("key", "value", "headers")
        )
        columns = (
            ("timestamp", _timestamp),
            ("partition", lambda record: b"Partition:%d" % record.partition),
            ("offset", lambda record: b"Offset:%d" % record.offset),
            ("delivery", lambda _: b"Delivery:" + _NOT_PRESENT),
            ("epoch", lambda _: b"Epoch:" + _NOT_PRESENT),
            ("headers", self._headers),
            ("key", lambda record: self._decoded(self._key, record.raw_key)),
            ("value", lambda record: self._decoded(self._value, record.raw_value)),
        )
        self._columns: list[Formatter] = [
            column for name, column in columns if wants(name, "true" if name == "value" else "false")
        ]

    def write(self, record: Record) -> bytes:
        """Write the record as a line."""
        if not self._columns:
            return b""
        return self._column_end.join(column(record) for column in self._columns) + self._line_end

    def _headers(self, record: Record) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self._header_end.join(
            name.encode() + b":" + self._decoded(self._header, value) for name, value in record.headers
        )

    def _decoded(self, decoder: Decoder, value: bytes | None) -> bytes:
        return decoder(self._null if value is None else value)


def _timestamp(record: Record) -> bytes:
    name = _TIMES.get(record.timestamp_type)
    return b"NO_TIMESTAMP" if name is None else f"{name}:{record.timestamp_ms}".encode()


def _checksum(record: Record) -> int:
    """The checksum of the record as a message of format 0, which Kafka 0.9 prints for every format."""
    parts = (b"" if data is None else data for data in (record.raw_key, record.raw_value))
    sizes = (-1 if data is None else len(data) for data in (record.raw_key, record.raw_value))
    sized = b"".join(struct.pack(">i", size) + part for size, part in zip(sizes, parts, strict=True))
    return zlib.crc32(b"\0\0" + sized)


def _decoder(class_name: str | None) -> Decoder:
    name = (class_name or "StringDeserializer").rpartition(".")[2]
    if name == "StringDeserializer":
        return bytes
    if name not in _NUMBERS:
        raise ToolRefused(
            f"{class_name} is not known here; {', '.join(['StringDeserializer', *_NUMBERS])} are"
        )
    form = struct.Struct(_NUMBERS[name])

    def read(value: bytes) -> bytes:
        if len(value) != form.size:
            raise ToolRefused(
                f"org.apache.kafka.common.errors.SerializationException: Size of data received by {name} "
                f"is not {form.size}"
            )
        return b"%d" % form.unpack(value)[0]

    return read

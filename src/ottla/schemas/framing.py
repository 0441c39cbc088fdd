"""The frame of Confluent's serializers: a zero byte, the schema's id in four bytes, then the value. Pure.

Protobuf has a list of message indexes between the id and the value: which message of the schema's file it is.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.schemas.decoded import Undecodable, shown

HEADER_BYTES = 5
INDEXES_MAX = 100


class Frame(NamedTuple):
    """A schema's id, and the bytes after it."""

    schema_id: int
    payload: bytes


def framed(value: bytes) -> Frame:
    """Take the frame off. Raises Undecodable for a value that has none."""
    if len(value) < HEADER_BYTES or value[0]:
        raise Undecodable(
            "there is no frame of a schema registry, which is a zero byte and an id of four bytes:"
            f" the value begins with {shown(value[:HEADER_BYTES])}"
        )
    return Frame(int.from_bytes(value[1:HEADER_BYTES], "big"), value[HEADER_BYTES:])


def message_indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """The path to a message of Protobuf in its file, and the message's bytes. Raises Undecodable."""
    count, at = _zigzag(payload, 0)
    if not 0 <= count <= INDEXES_MAX:
        raise Undecodable(f"the frame has {count} message indexes")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(payload, at)
        indexes.append(index)
    return tuple(indexes) or (0,), payload[at:]


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise Undecodable("the frame's message indexes do not end")

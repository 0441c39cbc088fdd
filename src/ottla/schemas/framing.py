"""The frame of Confluent's serializers: a zero byte, the schema's id in four bytes, then the value. Pure.

Protobuf has a list of message indexes between the id and the value: which message of the schema's file it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ottla.kernels.numpy_bytes import I64Array, read_numbers
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


def with_frame(schema_id: int, payload: bytes) -> bytes:
    """Put a frame in front."""
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def frame_id(value: bytes) -> int | None:
    """The schema's id in a value that looks framed: five bytes or more, the first zero; else None."""
    is_framed = len(value) >= HEADER_BYTES and not value[0]
    return int.from_bytes(value[1:HEADER_BYTES], "big") if is_framed else None


def frame_ids(column: pa.Array) -> I64Array:
    """The schema's id of each value of a column without nulls; -1 where there is no frame."""
    _, ends, content = column.buffers()
    offsets = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    starts, sizes = offsets[:-1], np.diff(offsets)
    data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    ids = np.full(len(column), -1, np.int64)
    rows = np.flatnonzero(sizes >= HEADER_BYTES)
    rows = rows[data[starts[rows]] == 0]
    ids[rows] = read_numbers(data, starts[rows] + 1, ">u4")
    return ids


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

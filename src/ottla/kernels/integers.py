"""Reading and writing of integers inside kernels: big-endian, and zig-zag varints.

A failed varint read answers a position past `end`; every later read from there fails too, so a caller
checks once before it uses what it read.
"""

from __future__ import annotations

import numpy as np

from ottla.kernels.kernel import inlined


@inlined
def byte_at(data, at):  # type: ignore[no-untyped-def]
    """An unsigned byte as a signed 64-bit number (Numba's int() of it alone would stay unsigned).

    A signed index would be tested for Python's counting from the end, on every byte.
    """
    return int(data[np.uint64(at)]) & 0xFF


@inlined
def put(array, index, value):  # type: ignore[no-untyped-def]
    """array[index] = value, without the test for a negative index."""
    array[np.uint64(index)] = value


@inlined
def read_int16(data, at):  # type: ignore[no-untyped-def]
    value = (byte_at(data, at) << 8) | byte_at(data, at + 1)
    return value - ((value & 0x8000) << 1)


@inlined
def read_uint32(data, at):  # type: ignore[no-untyped-def]
    return (
        (byte_at(data, at) << 24) | (byte_at(data, at + 1) << 16) | (byte_at(data, at + 2) << 8) | byte_at(data, at + 3)
    )


@inlined
def read_int32(data, at):  # type: ignore[no-untyped-def]
    value = read_uint32(data, at)
    return value - ((value & 0x80000000) << 1)


@inlined
def read_int64(data, at):  # type: ignore[no-untyped-def]
    return (read_int32(data, at) << 32) | read_uint32(data, at + 4)


@inlined
def write_int16(out, at, value):  # type: ignore[no-untyped-def]
    out[at] = (value >> 8) & 0xFF
    out[at + 1] = value & 0xFF


@inlined
def write_int32(out, at, value):  # type: ignore[no-untyped-def]
    out[at] = (value >> 24) & 0xFF
    out[at + 1] = (value >> 16) & 0xFF
    out[at + 2] = (value >> 8) & 0xFF
    out[at + 3] = value & 0xFF


@inlined
def write_int64(out, at, value):  # type: ignore[no-untyped-def]
    write_int32(out, at, value >> 32)
    write_int32(out, at + 4, value)


@inlined
def read_varint(data, at, end):  # type: ignore[no-untyped-def]
    """Zig-zag varint of at most 63 bits: (value, next position), next position > end on failure."""
    if at >= end:
        return 0, end + 1
    byte = byte_at(data, at)
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = byte & 0x7F
    # Lengths and deltas of usual records take one or two bytes; the loop is for the others.
    if at + 1 < end:
        byte = byte_at(data, at + 1)
        if byte < 0x80:
            value |= byte << 7
            return (value >> 1) ^ -(value & 1), at + 2
    shift = 7
    at += 1
    while at < end and shift < 63:
        byte = byte_at(data, at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return 0, end + 1


@inlined
def varint_size(value):  # type: ignore[no-untyped-def]
    zigzag = (value << 1) ^ (value >> 63)
    size = 1
    while zigzag >= 0x80:
        zigzag >>= 7
        size += 1
    return size


@inlined
def write_varint(out, at, value):  # type: ignore[no-untyped-def]
    """Write a zig-zag varint of at most 63 bits; the caller has made room. Answers the next position."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag >= 0x80:
        out[at] = (zigzag & 0x7F) | 0x80
        zigzag >>= 7
        at += 1
    out[at] = zigzag
    return at + 1

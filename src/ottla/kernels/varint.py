"""Zig-zag varints inside kernels, at addresses.

Lengths and deltas of usual records take one or two bytes: those are inlined, the loop for the others is
called. A failed read answers a position past `end`; every later read from there fails too, so a caller
checks once before it uses what it read.
"""

from __future__ import annotations

from ottla.kernels.kernel import inlined, kernel
from ottla.kernels.memory import get_byte, put_byte


@kernel
def _read_long(data, at, end):
    value = 0
    shift = 0
    while at < end and shift < 63:
        byte = get_byte(data, at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return 0, end + 1


@inlined
def read_varint(data, at, end):
    """Zig-zag varint of at most 63 bits: (value, next position), next position > end on failure."""
    if at >= end:
        return 0, end + 1
    byte = get_byte(data, at)
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    if at + 1 < end:
        second = get_byte(data, at + 1)
        if second < 0x80:
            value = (byte & 0x7F) | (second << 7)
            return (value >> 1) ^ -(value & 1), at + 2
    return _read_long(data, at, end)


@inlined
def varint_size(value):
    zigzag = (value << 1) ^ (value >> 63)
    size = 1
    while zigzag >= 0x80:
        zigzag >>= 7
        size += 1
    return size


@kernel
def _write_long(out, at, zigzag):
    while zigzag >= 0x80:
        put_byte(out, at, (zigzag & 0x7F) | 0x80)
        zigzag >>= 7
        at += 1
    put_byte(out, at, zigzag)
    return at + 1


@inlined
def write_varint(out, at, value):
    """Write a zig-zag varint of at most 63 bits; the caller has made room. Answers the next position."""
    zigzag = (value << 1) ^ (value >> 63)
    if zigzag < 0x80:
        put_byte(out, at, zigzag)
        return at + 1
    if zigzag < 0x4000:
        put_byte(out, at, (zigzag & 0x7F) | 0x80)
        put_byte(out, at + 1, zigzag >> 7)
        return at + 2
    return _write_long(out, at, zigzag)

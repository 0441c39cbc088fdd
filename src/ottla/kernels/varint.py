"""Zig-zag varints inside kernels, at addresses.

A failed varint read answers a position past `end`; every later read from there fails too, so a caller
checks once before it uses what it read.
"""

from __future__ import annotations

from ottla.kernels.kernel import inlined
from ottla.kernels.memory import get_byte, put_byte


@inlined
def read_varint(data, at, end):
    """Zig-zag varint of at most 63 bits: (value, next position), next position > end on failure."""
    if at >= end:
        return 0, end + 1
    byte = get_byte(data, at)
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = byte & 0x7F
    # Lengths and deltas of usual records take one or two bytes; the loop is for the others.
    if at + 1 < end:
        byte = get_byte(data, at + 1)
        if byte < 0x80:
            value |= byte << 7
            return (value >> 1) ^ -(value & 1), at + 2
    shift = 7
    at += 1
    while at < end and shift < 63:
        byte = get_byte(data, at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return 0, end + 1


@inlined
def varint_size(value):
    zigzag = (value << 1) ^ (value >> 63)
    if zigzag < 0x80:
        return 1
    if zigzag < 0x4000:
        return 2
    size = 3
    zigzag >>= 21
    while zigzag > 0:
        zigzag >>= 7
        size += 1
    return size


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
    while zigzag >= 0x80:
        put_byte(out, at, (zigzag & 0x7F) | 0x80)
        zigzag >>= 7
        at += 1
    put_byte(out, at, zigzag)
    return at + 1

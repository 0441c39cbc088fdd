"""The order in which Scala 2.11's hash maps iterate, which is the order of keys in what Kafka 0.9 wrote.

No reader depends on it. It is here so that a node written by us equals one written by Kafka byte for byte
and a difference between the two is always a finding. Up to four entries an immutable map keeps the order
of insertion; above that it is a trie that branches on five bits of the mixed hash at a time, lowest bits
first. A mutable map is a table of 2ⁿ ≥ 16 slots, read from the last slot to the first.

    assignment_order(4)  →  2, 1, 3, 0       (as seen on a live Kafka 0.9.0.1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.model.java_hashes import MASK, java_hash

Key = TypeVar("Key")

_INSERTION_MAX = 4
_SCRAMBLE = 0x9E3775CD
_TABLE_SLOTS_MIN = 16


def immutable_order(keys: Iterable[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """Return the iteration order of an immutable map that was filled in the order of `keys`."""
    listed = list(keys)
    if len(listed) <= _INSERTION_MAX:
        return listed

    def branches(key: Key) -> tuple[int, ...]:
        mixed = _mixed(hash_of(key))
        return tuple((mixed >> shift) & 31 for shift in range(0, 32, 5))

    return sorted(listed, key=branches)


def assignment_order(partition_count: int) -> list[int]:
    """Return the order of partitions 0 … n-1 in the assignment that `kafka-topics --create` of 0.9 writes.

    Three maps in a row: a mutable one by number, an immutable one by number, an immutable one by text.
    """
    by_table = _mutable_order(range(partition_count))
    by_number = immutable_order(by_table, lambda number: number)
    return immutable_order(by_number, lambda number: java_hash(str(number)))


def _mixed(value: int) -> int:
    value = (value + ~(value << 9)) & MASK
    value ^= value >> 14
    value = (value + (value << 4)) & MASK
    return value ^ (value >> 10)


def _mutable_order(keys: range) -> list[int]:
    slots = _TABLE_SLOTS_MIN
    while len(keys) > slots * 3 // 4:
        slots *= 2
    bits = (slots - 1).bit_length()

    def slot(key: int) -> int:
        scrambled = (key * _SCRAMBLE) & MASK
        swapped = int.from_bytes(scrambled.to_bytes(4, "big"), "little")
        mixed = (swapped * _SCRAMBLE) & MASK
        rotated = ((mixed >> bits) | (mixed << (32 - bits))) & MASK
        return rotated >> (32 - bits)

    return sorted(keys, key=slot, reverse=True)

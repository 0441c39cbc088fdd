"""The order in which Java's hash maps hand out what is in them: some of Kafka's tools print in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.model.topic_partition import TopicAndPartition

T = TypeVar("T")

_SMALLEST_TABLE, _LOAD = 16, 0.75
_MASK = 0xFFFFFFFF


def java_hash(text: str) -> int:
    """String.hashCode, as 32 bits without a sign."""
    units = text.encode("utf-16-be")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & _MASK
    return value


def java_order(names: Iterable[str], smallest_table: int = _SMALLEST_TABLE) -> list[str]:
    """Names as java.util.HashMap hands them out."""
    return java_order_by(dict.fromkeys(names), java_hash, smallest_table)


def java_partition_order(places: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """Partitions as a HashMap of Kafka's TopicPartitions hands them out."""
    return java_order_by(
        dict.fromkeys(places), lambda one: (31 * (31 + one.partition) + java_hash(one.topic)) & _MASK
    )


def java_order_by(
    items: Iterable[T], hash_of: Callable[[T], int], smallest_table: int = _SMALLEST_TABLE
) -> list[T]:
    """Different things as a HashMap hands them out that was made for `smallest_table` of them."""
    listed = list(items)
    table = smallest_table
    while len(listed) > table * _LOAD:
        table *= 2

    def bucket(one: T) -> int:
        value = hash_of(one)
        return (value ^ value >> 16) & (table - 1)

    return sorted(listed, key=bucket)

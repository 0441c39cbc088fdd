"""The iteration order of Java's hash maps, in which some of Kafka's tools print."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.model.java_hashes import MASK, java_hash
from ottla.model.topic_partition import TopicAndPartition

T = TypeVar("T")

_SMALLEST_TABLE, _LOAD = 16, 0.75


def java_order(names: Iterable[str], smallest_table: int = _SMALLEST_TABLE) -> list[str]:
    """Names in the order of a java.util.HashMap."""
    return java_order_by(dict.fromkeys(names), java_hash, smallest_table)


def java_partition_order(partitions: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """Partitions in the order of a HashMap of Kafka's TopicPartition."""
    return java_order_by(
        dict.fromkeys(partitions),
        lambda partition: 31 * (31 + partition.partition) + java_hash(partition.topic),
    )


def java_order_by(
    items: Iterable[T], hash_of: Callable[[T], int], smallest_table: int = _SMALLEST_TABLE
) -> list[T]:
    """Distinct values in the order of a HashMap that was created for `smallest_table` of them."""
    listed = list(items)
    table = smallest_table
    while len(listed) > table * _LOAD:
        table *= 2

    def bucket(key: T) -> int:
        value = hash_of(key) & MASK
        return (value ^ value >> 16) & (table - 1)

    return sorted(listed, key=bucket)

"""Names of members and streams of a classic group.

    group.id "billing", consumer.id unset     →  billing_web-3-1794770976453-99975d24       (consumerIdString)
    its third stream                          →  billing_web-3-1794770976453-99975d24-2     (ConsumerThreadId)

Streams are sorted by that text, not by their number: stream 10 comes before stream 2. All members must sort
the same way, or they would claim each other's partitions.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.zookeeper import paths

ConsumerIdString = str


class ConsumerThreadId(NamedTuple):
    """One stream of one member. Compares by its text, as Kafka's does.

    >>> from ottla.consumer.classic import ConsumerThreadId
    >>> print(*sorted(ConsumerThreadId("kitchen_web-3", thread) for thread in (1, 2, 10)))
    kitchen_web-3-1 kitchen_web-3-10 kitchen_web-3-2
    """

    consumer: ConsumerIdString
    thread: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.thread}"

    def __lt__(self, other: tuple[object, ...]) -> bool:
        # Java compares UTF-16 units; ids are ASCII in practice, where that is the same.
        return str(self) < str(other)

    def __le__(self, other: tuple[object, ...]) -> bool:
        return str(self) <= str(other)

    def __gt__(self, other: tuple[object, ...]) -> bool:
        return str(self) > str(other)

    def __ge__(self, other: tuple[object, ...]) -> bool:
        return str(self) >= str(other)


def generated_consumer_id(host_name: str, now_ms: int, random_bits: int) -> str:
    """Return a `consumer.id` as Kafka generates it; `random_bits` is a random number of 64 bits."""
    # Kafka takes the first eight hex digits of the number, which has no leading zeros.
    digits = f"{random_bits:x}"[:8]
    return f"{host_name}-{now_ms}-{digits}"


def consumer_id_string(group_id: str, consumer_id: str) -> ConsumerIdString:
    """Return the member's id. Raises ConfigError if a name cannot be part of a znode path."""
    consumer = f"{group_id}_{consumer_id}"
    paths.consumer(group_id, consumer)  # checks both names
    return consumer


def thread_ids(consumer: ConsumerIdString, count: int) -> tuple[ConsumerThreadId, ...]:
    """Return the ids of a member's `count` streams of one topic, by number."""
    return tuple(ConsumerThreadId(consumer, thread) for thread in range(count))

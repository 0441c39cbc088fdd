"""Who a member of a classic group is: its consumerIdString, and the streams ("threads") that it consists of.

    group.id "billing", consumer.id unset     →  billing_web-3-1794770976453-99975d24
    its third stream                          →  billing_web-3-1794770976453-99975d24-2

Streams are ordered by that text, not by their number: the tenth comes before the second. Every member sorts
like this, so whoever sorts otherwise claims other partitions than the group expects.
"""

from __future__ import annotations

import random
import socket
import time
from typing import NamedTuple

from ottla.zookeeper import paths

ConsumerIdString = str


class ConsumerThreadId(NamedTuple):
    """One stream of one member; compares by its text, as Kafka's does."""

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


def consumer_id_string(
    group_id: str,
    consumer_id: str = "",
    *,
    host_name: str = "",
    now_ms: int | None = None,
    chance: random.Random | None = None,
) -> ConsumerIdString:
    """The id of a member: `consumer.id` as given, or one that nobody else has.

    Host, time and random bits are arguments for tests. Raises ConfigError for names that cannot be znodes.
    """
    if not consumer_id:
        host_name = host_name or socket.gethostname()
        now_ms = int(time.time() * 1000) if now_ms is None else now_ms
        # Kafka takes the first eight hex digits of a number of 64 bits, which has no zeros in front.
        digits = f"{(chance or random.SystemRandom()).getrandbits(64):x}"[:8]
        consumer_id = f"{host_name}-{now_ms}-{digits}"
    found = f"{group_id}_{consumer_id}"
    paths.consumer(group_id, found)  # raises for what would be another node's path
    return found


def thread_ids(consumer: ConsumerIdString, count: int) -> tuple[ConsumerThreadId, ...]:
    """All streams of a member for one topic, by number."""
    return tuple(ConsumerThreadId(consumer, thread) for thread in range(count))

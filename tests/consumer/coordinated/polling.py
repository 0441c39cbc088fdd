"""Members of groups that are polled in the thread of the test, and what they have read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, product
from typing import Any

from ottla.consumer.coordinated import GroupConsumer, RebalanceListener
from ottla.model.topic_partition import TopicAndPartition
from tests.fetching.traffic import Writer
from tests.waiting import PATIENCE_S


def partitions_of(topic: str, count: int = 4) -> list[TopicAndPartition]:
    return [TopicAndPartition(topic, number) for number in range(count)]


def fill(writer: Writer, topic: str, count: int = 100) -> None:
    for topic_partition in partitions_of(topic):
        writer.write(topic_partition, count)


def poll_until(
    condition: Callable[[], bool], *consumers: GroupConsumer, into: list[Any] | None = None
) -> list[Any]:
    """Poll in turns, all in this thread, until the condition holds; the chunks that came."""
    deadline = time.monotonic() + PATIENCE_S
    chunks = [] if into is None else into
    while not condition():
        assert time.monotonic() < deadline, [
            (consumer._membership.state, consumer.assignment) for consumer in consumers
        ]
        for consumer in consumers:
            chunk = consumer.poll(0.02)
            if chunk is not None:
                chunks.append(chunk)
    return chunks


def offsets_of(chunks: Sequence[Any]) -> Counter[tuple[TopicAndPartition, int]]:
    return Counter(
        (chunk.topic_partition, offset) for chunk in chunks for offset in chunk.batch["offset"].to_pylist()
    )


def all_offsets(topic: str, count: int = 100) -> Counter[tuple[TopicAndPartition, int]]:
    return Counter(product(partitions_of(topic), range(count)))


def read_all(consumer: GroupConsumer, topic: str, count: int = 100) -> list[Any]:
    chunks: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while sum(chunk.batch.num_rows for chunk in chunks) < 4 * count:
        assert time.monotonic() < deadline
        chunk = consumer.poll(1)
        if chunk is not None:
            chunks.append(chunk)
    return chunks


def shared_out(topic: str, *consumers: GroupConsumer) -> Callable[[], bool]:
    """Return a condition: every consumer has partitions, and together they have all."""

    def is_shared_out() -> bool:
        parts = [consumer.assignment for consumer in consumers]
        return all(parts) and sorted(chain.from_iterable(parts)) == partitions_of(topic)

    return is_shared_out


class Notes(RebalanceListener):
    """What a listener was told, in order. What `act` returns is awaited by asyncio's consumers."""

    def __init__(self, act: Callable[[str, Any], Any] = lambda *_: None) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.act = act

    def on_revoked(self, partitions: Any) -> Any:
        return self.note("revoked", partitions)

    def on_assigned(self, partitions: Any) -> Any:
        return self.note("assigned", partitions)

    def on_lost(self, partitions: Any) -> Any:
        return self.note("lost", partitions)

    def note(self, kind: str, partitions: Any) -> Any:
        self.calls.append((kind, set(partitions)))
        return self.act(kind, partitions)

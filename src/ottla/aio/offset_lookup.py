"""Looks up offsets on an event loop: where logs begin and end, and which offset belongs to a time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ottla.aio.cluster import LoopMetadata
from ottla.aio.pool import LoopPool
from ottla.aio.waiting import LOOP_WAITS
from ottla.client import offset_questions
from ottla.client.client_config import ClientConfig
from ottla.client.lookup_calls import LookupCalls, answered
from ottla.client.offset_questions import Asking, Offsets
from ottla.model.offset_spec import OffsetSpec
from ottla.model.topic_partition import TopicAndPartition

T = TypeVar("T")


class LoopOffsetLookup:
    """Answers questions of `offset_questions`."""

    def __init__(
        self, config: ClientConfig, metadata: LoopMetadata, pool: LoopPool, isolation_level: int = 0
    ) -> None:
        self._pool = pool
        self._calls = LookupCalls(config, metadata, LOOP_WAITS, isolation_level)

    async def start(self, topic_partition: TopicAndPartition, spec: OffsetSpec) -> int:
        """Return where to begin: an offset, EARLIEST or LATEST. Asks the leader if `spec` is a time."""
        return await self._answered(offset_questions.start(topic_partition, spec, _now_ms()))

    async def for_times(self, times: Mapping[TopicAndPartition, OffsetSpec]) -> Offsets:
        """Return, for each partition, the offset of the first record at that time or later; None if there is
        none.
        """
        return await self._answered(offset_questions.for_times(times, _now_ms()))

    async def tail(
        self, topic_partitions: Iterable[TopicAndPartition], count: int
    ) -> dict[TopicAndPartition, int]:
        """Return, for each partition, the offset `count` before its end, but not before its beginning."""
        return await self._answered(offset_questions.tail(topic_partitions, count))

    async def _answered(self, asking: Asking[T]) -> T:
        return await answered(asking, lambda times: self._calls.all_offsets(times, self._pool))


def _now_ms() -> int:
    return int(time.time() * 1000)

"""Asks the leaders of partitions where logs begin and end, and which offset belongs to a time.

Tries again through elections and restarts until request.timeout.ms; then the last error is raised.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ottla.aio.cluster import LoopMetadata
from ottla.aio.connection import LoopConnection
from ottla.aio.pool import LoopPool
from ottla.aio.waiting import LOOP_WAITS
from ottla.client import offset_questions
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.conversation import Tries
from ottla.client.list_offsets import API, OffsetAnswer, OffsetQuestion
from ottla.client.offset_questions import (
    Asking,
    LeaderAnswers,
    LeaderQuestions,
    LookupRounds,
    Offsets,
    Times,
    judged,
    split_by_ability,
)
from ottla.client.retry import Backoff
from ottla.model.errors import OttlaError
from ottla.model.offset_spec import OffsetSpec
from ottla.model.topic_partition import TopicAndPartition

T = TypeVar("T")


async def ask_offsets(
    connection: LoopConnection,
    questions: Sequence[OffsetQuestion],
    isolation_level: int,
    wait_ms: float | None = None,
) -> list[OffsetAnswer]:
    """One request to the leader of all these partitions; an answer for each, if only that there was none."""
    version = connection.version_for(API)
    asked = LeaderQuestions(questions, version, isolation_level)
    return asked.answers(await connection.call(asked.request(), version=version, timeout_ms=wait_ms))


class LoopOffsetLookup:
    """Answers questions of `offset_questions`."""

    def __init__(
        self, config: ClientConfig, metadata: LoopMetadata, pool: LoopPool, isolation_level: int = 0
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._pool = pool
        self._isolation_level = isolation_level
        self._chance = random.Random()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    async def start(self, topic_partition: TopicAndPartition, spec: OffsetSpec) -> int:
        """Where to begin to read: an offset, EARLIEST or LATEST. Asks the leader if `spec` is a time."""
        return await self._answered(offset_questions.start(topic_partition, spec, _now_ms()))

    async def for_times(self, times: Mapping[TopicAndPartition, OffsetSpec]) -> Offsets:
        """For each partition, the offset of the first record at that time or later; None if there is none."""
        return await self._answered(offset_questions.for_times(times, _now_ms()))

    async def tail(
        self, topic_partitions: Iterable[TopicAndPartition], count: int
    ) -> dict[TopicAndPartition, int]:
        """For each partition, the offset `count` before its end, but not before its beginning."""
        return await self._answered(offset_questions.tail(topic_partitions, count))

    async def _answered(self, asking: Asking[T]) -> T:
        try:
            all_times = next(asking)
            while True:
                all_times = asking.send([await self._ask(times) for times in all_times])
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def _ask(self, times: Times) -> Offsets:
        """A request may name a partition once only, so there is one time for each."""
        rounds = LookupRounds(times)
        deadline = Deadline(MONOTONIC, self._config.request_timeout_ms)
        tries = Tries(self._backoff, deadline, self._chance, LOOP_WAITS)
        while await tries.next():
            leaders = [await self._metadata.leader(*partition, deadline) for partition in rounds.left]
            for broker_id, questions in rounds.by_leader(leaders).items():
                try:
                    wait_ms = deadline.for_try(self._config.request_timeout_ms).timeout_ms
                    connection = await self._pool.to(broker_id, deadline)
                    rounds.take(await self._answers(connection, questions, wait_ms))
                except OttlaError as error:
                    rounds.failed(error)
                    await self._pool.drop(broker_id)
            if not rounds.left:
                return rounds.offsets
            for partition in rounds.left:
                self._metadata.invalidate(*partition)
        raise rounds.failure

    async def _answers(
        self, connection: LoopConnection, questions: list[OffsetQuestion], wait_ms: float | None
    ) -> LeaderAnswers:
        unable, left = split_by_ability(questions, connection.version_for(API))
        if not left:
            return unable
        return unable | judged(await ask_offsets(connection, left, self._isolation_level, wait_ms))


def _now_ms() -> int:
    return int(time.time() * 1000)

"""Asks the leaders of partitions where logs begin and end, and which offset belongs to a time: conversations.

Tries again through elections and restarts until request.timeout.ms; then the last error is raised.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.conversation import Metadata, Peer, Tries, Waits
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
from ottla.client.peer_pool import PeerPool
from ottla.client.retry import Backoff
from ottla.model.errors import OttlaError

T = TypeVar("T")


async def ask_offsets(
    connection: Peer,
    questions: Sequence[OffsetQuestion],
    isolation_level: int = 0,
    *,
    timeout_ms: int | None = None,
    wait_ms: float | None = None,
) -> list[OffsetAnswer]:
    """Send one request to the leader of all these partitions.

    Returns an answer for each, with an error if it had none. `timeout_ms` is for the broker, `wait_ms` for us
    (request.timeout.ms). Raises what `connection.call` raises.
    """
    version = connection.version_for(API)
    leader_questions = LeaderQuestions(questions, version, isolation_level, timeout_ms)
    return leader_questions.answers(
        await connection.call(leader_questions.request(), version=version, timeout_ms=wait_ms)
    )


async def answered(asking: Asking[T], ask: Callable[[list[Times]], Awaitable[list[Offsets]]]) -> T:
    """Return the answer to a question of `offset_questions`; `ask` looks offsets up."""
    try:
        all_times = next(asking)
        while True:
            all_times = asking.send(await ask(all_times))
    except StopIteration as end:
        answer: T = end.value
        return answer


class LookupCalls:
    """Looks up the offsets of times."""

    def __init__(
        self, config: ClientConfig, metadata: Metadata, waits: Waits, isolation_level: int = 0
    ) -> None:
        self._metadata = metadata
        self._waits = waits
        self._isolation_level = isolation_level
        self._timeout_ms = config.request_timeout_ms
        self._chance = random.Random()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    async def all_offsets(self, all_times: Iterable[Times], peers: PeerPool[Any]) -> list[Offsets]:
        """Return the offsets of several times in each partition."""
        return [await self._offsets(times, peers) for times in all_times]

    async def _offsets(self, times: Times, peers: PeerPool[Any]) -> Offsets:
        """Return the offset of one time for each partition: a request may name a partition only once."""
        rounds = LookupRounds(times)
        deadline = Deadline(MONOTONIC, self._timeout_ms)
        tries = Tries(self._backoff, deadline, self._chance, self._waits)
        while await tries.next():
            leaders = [await self._metadata.leader(*partition, deadline) for partition in rounds.left]
            for broker_id, questions in rounds.by_leader(leaders).items():
                try:
                    wait_ms = deadline.for_try(self._timeout_ms).timeout_ms
                    connection = await peers.to(broker_id, deadline)
                    rounds.take(await self._answers(connection, questions, wait_ms))
                except OttlaError as error:
                    if self._waits.is_over:
                        raise
                    rounds.failed(error)
                    await peers.drop(broker_id)
            if not rounds.left:
                return rounds.offsets
            for partition in rounds.left:
                self._metadata.invalidate(*partition)
        raise rounds.failure

    async def _answers(
        self, connection: Peer, questions: list[OffsetQuestion], wait_ms: float | None
    ) -> LeaderAnswers:
        """Return the answers of a broker. Errors that another try may cure are returned, others
        are raised.
        """
        unable, left = split_by_ability(questions, connection.version_for(API))
        if not left:
            return unable
        return unable | judged(await ask_offsets(connection, left, self._isolation_level, wait_ms=wait_ms))

"""Asks the leaders of partitions where logs begin and end, and which offset belongs to a time.

Tries again through elections and restarts until request.timeout.ms; then the last error is raised.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ottla.client import offset_questions
from ottla.client.attempts import attempts
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption, acquired
from ottla.client.list_offsets import API, LogEnds, OffsetAnswer, OffsetQuestion
from ottla.client.metadata import ClusterMetadata
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
from ottla.client.pool import ConnectionPool
from ottla.client.retry import Backoff
from ottla.model.errors import OttlaError
from ottla.model.offset_spec import OffsetSpec
from ottla.model.topic_partition import TopicAndPartition

T = TypeVar("T")


def ask_offsets(
    connection: Connection,
    questions: Sequence[OffsetQuestion],
    *,
    isolation_level: int = 0,
    timeout_ms: int | None = None,
    wait_ms: float | None = None,
) -> list[OffsetAnswer]:
    """One request to the leader of all these partitions; an answer for each, if only that there was none.

    `timeout_ms` is for the broker, `wait_ms` for us (request.timeout.ms). Raises what `connection.call`
    raises.
    """
    version = connection.version_for(API)
    asked = LeaderQuestions(questions, version, isolation_level, timeout_ms)
    return asked.answers(connection.call(asked.request(), version=version, timeout_ms=wait_ms))


class OffsetLookup:
    """Thread-safe; one thread asks at a time. `interrupt` and `close` end a question with ConnectionLost."""

    def __init__(
        self,
        config: ClientConfig,
        metadata: ClusterMetadata,
        isolation_level: int = 0,
        *,
        pool: ConnectionPool | None = None,
    ) -> None:
        """Without a `pool`, connections are opened for each question and closed after it."""
        self._config = config
        self._metadata = metadata
        self._isolation_level = isolation_level
        self._pool = pool
        self._interruption = Interruption()
        self._lock = threading.Lock()  # held by the thread that asks
        self._chance = random.Random()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    # --- questions

    def offsets_at(self, times: Times) -> Offsets:
        """The first offset of each partition from a time on. Raises OttlaError."""
        return self._ask_all([times])[0]

    def ends(
        self, topic_partitions: Iterable[TopicAndPartition], times: Iterable[int] = ()
    ) -> dict[TopicAndPartition, LogEnds]:
        """Where each log begins and ends, and the offsets of all these times in it. Raises OttlaError."""
        return self._answered(offset_questions.ends(topic_partitions, times))

    def start(self, topic_partition: TopicAndPartition, spec: OffsetSpec) -> int:
        """Where to begin to read: an offset, EARLIEST or LATEST. Asks the leader if `spec` is a time.

        Raises ConfigError, and NoTimestamps if the broker cannot look up times.
        """
        return self._answered(offset_questions.start(topic_partition, spec, _now_ms()))

    def for_times(self, times: Mapping[TopicAndPartition, OffsetSpec]) -> Offsets:
        """For each partition, the offset of the first record at that time or later; None if there is none.

        "earliest" and "latest" are the log's ends. Raises ConfigError for a number, NoTimestamps if a broker
        cannot look up times, OttlaError.
        """
        return self._answered(offset_questions.for_times(times, _now_ms()))

    def known_offsets_at(self, times: Times) -> dict[TopicAndPartition, int]:
        """As `offsets_at`, but raises NoTimestamps if a broker cannot look up times."""
        return self._answered(offset_questions.known_offsets_at(times))

    def tail(self, topic_partitions: Iterable[TopicAndPartition], count: int) -> dict[TopicAndPartition, int]:
        """For each partition, the offset `count` before its end, but not before its beginning."""
        return self._answered(offset_questions.tail(topic_partitions, count))

    def _answered(self, asking: Asking[T]) -> T:
        try:
            times = next(asking)
            while True:
                times = asking.send(self._ask_all(times))
        except StopIteration as end:
            answer: T = end.value
            return answer

    # --- the end

    def interrupt(self) -> None:
        """From any thread: the question under way, and all later ones, raise ConnectionLost."""
        self._interruption.interrupt()

    def close(self) -> None:
        """Interrupt, and wait until nobody asks. May be called twice. A `pool` that was given stays open."""
        self.interrupt()
        if acquired(self._lock, "the look-up of offsets"):
            self._interruption.close()
            self._lock.release()

    # --- asking

    def _ask_all(self, all_times: list[Times]) -> list[Offsets]:
        with self._lock:
            self._interruption.check()
            try:
                if self._pool is not None:
                    return [self._ask(self._pool, times) for times in all_times]
                with ConnectionPool(self._config, self._metadata, interruption=self._interruption) as pool:
                    return [self._ask(pool, times) for times in all_times]
            finally:
                if self._interruption.is_set:  # `close` may not have waited for us
                    self._interruption.close()

    def _ask(self, pool: ConnectionPool, times: Times) -> Offsets:
        """A request may name a partition once only, so there is one time for each."""
        rounds = LookupRounds(times)
        deadline = Deadline(MONOTONIC, self._config.request_timeout_ms)
        for _ in attempts(self._backoff, deadline, self._chance, self._interruption):
            leaders = [self._metadata.leader(*partition, deadline) for partition in rounds.left]
            for broker_id, questions in rounds.by_leader(leaders).items():
                try:
                    wait_ms = deadline.for_try(self._config.request_timeout_ms).timeout_ms
                    rounds.take(self._answers(pool.to(broker_id, deadline), questions, wait_ms))
                except OttlaError as error:
                    self._interruption.check()
                    rounds.failed(error)
                    pool.drop(broker_id)
            if not rounds.left:
                return rounds.offsets
            for partition in rounds.left:
                self._metadata.invalidate(*partition)
        raise rounds.failure

    def _answers(
        self, connection: Connection, questions: list[OffsetQuestion], wait_ms: float | None
    ) -> LeaderAnswers:
        """What a broker answers; errors that another try may cure are returned, others raised."""
        unable, left = split_by_ability(questions, connection.version_for(API))
        if not left:
            return unable
        found = ask_offsets(connection, left, isolation_level=self._isolation_level, wait_ms=wait_ms)
        return unable | judged(found)


def _now_ms() -> int:
    return int(time.time() * 1000)

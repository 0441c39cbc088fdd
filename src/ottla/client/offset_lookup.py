"""Looks up offsets for threads: where logs begin and end, and which offset belongs to a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ottla.client import offset_questions
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC
from ottla.client.conversation import completed
from ottla.client.direct import DirectMetadata, ThreadWaits
from ottla.client.interruption import Interruption, acquired
from ottla.client.list_offsets import LogEnds
from ottla.client.lookup_calls import LookupCalls, answered
from ottla.client.metadata import ClusterMetadata
from ottla.client.offset_questions import Asking, Offsets, Times
from ottla.client.pool import ConnectionPool
from ottla.model.offset_spec import OffsetSpec
from ottla.model.topic_partition import TopicAndPartition

T = TypeVar("T")


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
        self._pool = pool
        self._interruption = Interruption()
        self._lock = threading.Lock()  # held by the thread that asks
        waits = ThreadWaits(MONOTONIC, self._interruption)
        self._calls = LookupCalls(config, DirectMetadata(metadata), waits, isolation_level)

    # --- questions

    def offsets_at(self, times: Times) -> Offsets:
        """Return the first offset at or after a time, for each partition. Raises OttlaError."""
        return completed(self._all_offsets([times]))[0]

    def ends(
        self, topic_partitions: Iterable[TopicAndPartition], times: Iterable[int] = ()
    ) -> dict[TopicAndPartition, LogEnds]:
        """Return where each log begins and ends, and the offsets of all these times. Raises OttlaError."""
        return self._answered(offset_questions.ends(topic_partitions, times))

    def start(self, topic_partition: TopicAndPartition, spec: OffsetSpec) -> int:
        """Return where to begin: an offset, EARLIEST or LATEST. Asks the leader if `spec` is a time.

        Raises ConfigError, and NoTimestamps if the broker cannot look up times.
        """
        return self._answered(offset_questions.start(topic_partition, spec, _now_ms()))

    def for_times(self, times: Mapping[TopicAndPartition, OffsetSpec]) -> Offsets:
        """Return, for each partition, the offset of the first record at that time or later; None if there is
        none.

        "earliest" and "latest" are the log's ends. Raises ConfigError for a number, NoTimestamps if a broker
        cannot look up times, OttlaError.
        """
        return self._answered(offset_questions.for_times(times, _now_ms()))

    def known_offsets_at(self, times: Times) -> dict[TopicAndPartition, int]:
        """As `offsets_at`, but raises NoTimestamps if a broker cannot look up times."""
        return self._answered(offset_questions.known_offsets_at(times))

    def tail(self, topic_partitions: Iterable[TopicAndPartition], count: int) -> dict[TopicAndPartition, int]:
        """Return, for each partition, the offset `count` before its end, but not before its beginning."""
        return self._answered(offset_questions.tail(topic_partitions, count))

    # --- the end

    def interrupt(self) -> None:
        """Make the current question and all later ones raise ConnectionLost. From any thread."""
        self._interruption.interrupt()

    def close(self) -> None:
        """Interrupt, and wait for the thread that asks. May be called twice. A given `pool` stays open."""
        self.interrupt()
        if acquired(self._lock, "the look-up of offsets"):
            self._interruption.close()
            self._lock.release()

    # --- asking

    def _answered(self, asking: Asking[T]) -> T:
        return completed(answered(asking, self._all_offsets))

    async def _all_offsets(self, all_times: list[Times]) -> list[Offsets]:
        with self._lock:
            self._interruption.check()
            try:
                if self._pool is not None:
                    return await self._calls.all_offsets(all_times, self._pool.peers)
                with ConnectionPool(self._config, self._metadata, interruption=self._interruption) as pool:
                    return await self._calls.all_offsets(all_times, pool.peers)
            finally:
                if self._interruption.is_set:  # `close` may have given up waiting for this thread
                    self._interruption.close()


def _now_ms() -> int:
    return int(time.time() * 1000)

"""Where a stream's records come from: a member of a modern group, or of a classic one.

Both look the same to the stream, whose thread makes every call: `poll` gives chunks, and tells `Events` when
partitions are about to go to others, while they can still be committed, and when they are lost.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from ottla.classic import (
    Blacklist,
    ConsumerConnector,
    ConsumerRebalanceListener,
    ConsumerTimeout,
    TopicFilter,
)
from ottla.classic.identity import ConsumerThreadId
from ottla.classic.java_regex import compile_java
from ottla.fetching import FetchedDataChunk, TopicAndPartition
from ottla.grouped import GroupConsumer, PartitionsLost, RebalanceListener
from ottla.grouped.demands import Places
from ottla.zookeeper.errors import ConnectionLost

log = logging.getLogger(__name__)

POLL_MS = 100
"""How long a stream waits for records before it looks at everything else."""

Positions = Mapping[TopicAndPartition, int]


class Events(NamedTuple):
    """What a source tells its stream, from within `poll`."""

    on_release: Callable[[], None]
    on_loss: Callable[[Iterable[TopicAndPartition]], None]


class Source(Protocol):
    """A member of the mirror's group."""

    def poll(self) -> FetchedDataChunk | None:
        """The next chunk; None if none comes soon."""

    def commit(self, positions: Positions) -> bool:
        """Store positions, but those of partitions that are not ours any more. False: try again later."""

    def close(self) -> None:
        """Leave the group. Commits nothing."""


# --- the group protocol


class GroupSource(RebalanceListener):
    """A GroupConsumer."""

    def __init__(
        self,
        topics: TopicFilter,
        group_id: str,
        properties: Mapping[str, object],
        listener: RebalanceListener | None,
        events: Events,
    ) -> None:
        self._told = listener or RebalanceListener()
        self._events = events
        self._is_closing = False
        self._consumer = GroupConsumer(_pattern(topics), group_id, properties, listener=self)

    def poll(self) -> FetchedDataChunk | None:
        return self._consumer.poll(POLL_MS)

    def commit(self, positions: Positions) -> bool:
        ours = {place: offset for place, offset in positions.items() if place in self._consumer.assignment}
        if ours:
            try:
                self._consumer.commit(ours)
            except PartitionsLost as error:
                log.warning("%s", error)
        return True

    def close(self) -> None:
        self._is_closing = True
        self._consumer.close()

    def on_revoked(self, partitions: Places) -> None:
        if not self._is_closing:
            self._events.on_release()
        self._told.on_revoked(partitions)

    def on_assigned(self, partitions: Places) -> None:
        self._told.on_assigned(partitions)

    def on_lost(self, partitions: Places) -> None:
        self._events.on_loss(partitions)
        self._told.on_lost(partitions)


def _pattern(topics: TopicFilter) -> re.Pattern[str]:
    """A filter as the pattern of whole names that a GroupConsumer takes."""
    compiled = compile_java(topics.regex)
    if not isinstance(topics, Blacklist):
        return compiled
    return re.compile(f"(?!(?:{compiled.pattern})\\Z).+", re.ASCII)


# --- ZooKeeper


class ClassicSource:
    """A ConsumerConnector with one stream.

    Its listener is called by the rebalancing thread, which waits there until the stream's thread comes by in
    `poll` and has sent and committed what it was handed out: nobody else reads the partitions before.
    """

    def __init__(
        self,
        topics: TopicFilter,
        properties: Mapping[str, object],
        listener: ConsumerRebalanceListener | None,
        events: Events,
    ) -> None:
        self._events = events
        self._told = listener
        self._changed = threading.Condition()
        self._is_reading = False  # the next three are guarded by it
        self._is_release_wanted = False
        self._owned: frozenset[TopicAndPartition] = frozenset()
        self._connector = ConsumerConnector(properties)
        self._connector.set_consumer_rebalance_listener(self)
        try:
            (self._stream,) = self._connector.create_message_streams_by_filter(topics)
        except BaseException:
            self._connector.shutdown()
            raise
        self._chunks: Iterator[FetchedDataChunk] | None = None
        self._lost_sessions = 0
        with self._changed:
            self._is_reading = True

    def poll(self) -> FetchedDataChunk | None:
        self._release_if_wanted()
        self._look_for_losses()
        chunks = self._chunks = self._chunks or self._stream.batches()
        try:
            return next(chunks, None)
        except ConsumerTimeout:
            self._chunks = None
            return None

    def _look_for_losses(self) -> None:
        """With its session a member loses all partitions, and no listener is asked."""
        lost_sessions = self._connector.metrics().lost_sessions
        if lost_sessions != self._lost_sessions:
            self._lost_sessions = lost_sessions
            self._events.on_loss(self._owned)

    def _release_if_wanted(self) -> None:
        with self._changed:
            is_wanted = self._is_release_wanted
        if not is_wanted:
            return
        try:
            self._events.on_release()
        finally:
            with self._changed:
                self._is_release_wanted = False
                self._changed.notify_all()

    def commit(self, positions: Positions) -> bool:
        ours = {place: offset for place, offset in positions.items() if place in self._owned}
        try:
            self._connector.commit_offsets(ours)
        except ConnectionLost as error:
            log.warning("%s", error)
            return False
        return True

    def close(self) -> None:
        with self._changed:
            self._is_reading = False
            self._changed.notify_all()
        self._connector.shutdown()

    # --- the rebalancing thread

    def before_releasing_partitions(self, partition_ownership: dict[str, set[int]]) -> None:
        """Wait until the stream's thread has done its part."""
        with self._changed:
            if self._is_reading and partition_ownership:
                self._is_release_wanted = True
                self._changed.wait_for(lambda: not (self._is_release_wanted and self._is_reading))
            self._owned -= {
                TopicAndPartition(topic, one) for topic, some in partition_ownership.items() for one in some
            }
        if self._told is not None:
            self._told.before_releasing_partitions(partition_ownership)

    def before_starting_fetchers(
        self, consumer_id: str, partition_assignment: dict[str, dict[int, ConsumerThreadId]]
    ) -> None:
        """Note what is ours."""
        self._owned = frozenset(
            TopicAndPartition(topic, partition)
            for topic, threads in partition_assignment.items()
            for partition, thread in threads.items()
            if thread.consumer == consumer_id
        )
        if self._told is not None:
            self._told.before_starting_fetchers(consumer_id, partition_assignment)

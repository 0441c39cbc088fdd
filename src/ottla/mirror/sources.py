"""The source of a stream: a member of a coordinator's group, or of a classic group.

Both look the same to the stream, whose thread makes every call. `poll` returns chunks, and calls
`SourceEvents` when partitions are about to go to others, while they can still be committed, and when they
are lost.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from ottla.consumer.classic import Blacklist, ConsumerConnector, ConsumerRebalanceListener, TopicFilter
from ottla.consumer.classic.identity import ConsumerThreadId
from ottla.consumer.classic.java_regex import compile_java
from ottla.consumer.coordinated import GroupConsumer, RebalanceListener
from ottla.consumer.coordinated.member_state import PartitionSet
from ottla.consumer.reading.reader_state import Stopped
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.model.errors import PartitionsLost
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper.zookeeper_errors import ZooKeeperConnectionLost

log = logging.getLogger(__name__)

POLL_MS = 100
"""How long a stream waits for records before it does its other work."""

Positions = Mapping[TopicAndPartition, int]


class SourceEvents(NamedTuple):
    """Callbacks of a stream, called from within `poll`: before a release, and after a loss.

    `resume` gets the group's positions of new partitions (-1: none), and returns the positions to use
    instead. Classic groups do not call it.
    """

    on_release: Callable[[], None]
    on_loss: Callable[[Iterable[TopicAndPartition]], None]
    resume: Callable[[Positions], Positions]


class MirrorSource(Protocol):
    """A member of the mirror's group."""

    def poll(self) -> FetchedDataChunk | None:
        """Return the next chunk, or None if none arrives soon."""

    def commit(self, positions: Positions) -> bool:
        """Commit positions of partitions that are still ours. Returns False if it has to be repeated
        later."""

    @property
    def is_at_cut(self) -> bool:
        """Whether the stream may commit now."""

    @property
    def divides(self) -> bool:
        """Whether a commit now may divide transactions of the source that could be kept."""

    @property
    def stopped(self) -> Stopped:
        """The partitions that cannot be read at present, and why."""

    def close(self) -> None:
        """Leave the group, without a commit."""


class _AnywhereCut:
    """A source that may be committed at any position."""

    is_at_cut = True
    divides = False


# --- the group protocol


class GroupSource(_AnywhereCut, RebalanceListener):
    """A GroupConsumer."""

    def __init__(
        self,
        topics: TopicFilter,
        group_id: str,
        properties: Mapping[str, object],
        listener: RebalanceListener | None,
        events: SourceEvents,
    ) -> None:
        self._listener = listener or RebalanceListener()
        self._events = events
        self._is_closing = False
        self._consumer = GroupConsumer(_pattern(topics), properties, group_id=group_id, listener=self)

    def poll(self) -> FetchedDataChunk | None:
        return self._consumer.poll(POLL_MS / 1000)

    def positions(self) -> dict[TopicAndPartition, int]:
        """The next offset of each partition; -1 while it is not known."""
        return {each: self._consumer.position(each) for each in self._consumer.assignment}

    def stay(self, topic_partition: TopicAndPartition) -> None:
        """Pause a partition until `go_on` or `go_back`."""
        self._consumer.pause(topic_partition)

    def go_on(self, topic_partition: TopicAndPartition) -> None:
        """Resume a paused partition."""
        self._consumer.resume(topic_partition)

    def go_back(self, topic_partition: TopicAndPartition, offset: int) -> None:
        """Resume a paused partition at an offset."""
        self._consumer.seek(topic_partition, offset)
        self._consumer.resume(topic_partition)

    def commit(self, positions: Positions) -> bool:
        ours = {
            topic_partition: offset
            for topic_partition, offset in positions.items()
            if topic_partition in self._consumer.assignment
        }
        if ours:
            try:
                self._consumer.commit(ours)
            except PartitionsLost as error:
                log.warning("%s", error)
        return True

    @property
    def stopped(self) -> Stopped:
        return self._consumer.stopped

    def close(self) -> None:
        self._is_closing = True
        self._consumer.close()

    def on_revoked(self, partitions: PartitionSet) -> None:
        if not self._is_closing:
            self._events.on_release()
        self._listener.on_revoked(partitions)

    def on_assigned(self, partitions: PartitionSet) -> None:
        positions = {each: self._consumer.position(each) for each in partitions}
        for topic_partition, offset in self._events.resume(positions).items():
            self._consumer.seek(topic_partition, offset)
        self._listener.on_assigned(partitions)

    def on_lost(self, partitions: PartitionSet) -> None:
        self._events.on_loss(partitions)
        self._listener.on_lost(partitions)


def _pattern(topics: TopicFilter) -> re.Pattern[str]:
    """Return the filter as a pattern for whole names, as GroupConsumer takes it."""
    compiled = compile_java(topics.regex)
    if not isinstance(topics, Blacklist):
        return compiled
    return re.compile(f"(?!(?:{compiled.pattern})\\Z).+", re.ASCII)


# --- ZooKeeper


class ClassicSource(_AnywhereCut):
    """A ConsumerConnector with one stream.

    The rebalancing thread calls the listener and waits there until the stream's thread, in `poll`, has sent
    and committed everything that was handed out. So nobody else reads the partitions before that.
    """

    def __init__(
        self,
        topics: TopicFilter,
        properties: Mapping[str, object],
        listener: ConsumerRebalanceListener | None,
        events: SourceEvents,
    ) -> None:
        self._events = events
        self._listener = listener
        self._changed = threading.Condition()
        self._is_reading = False  # the next three are guarded by it
        self._is_release_wanted = False
        self._owned: frozenset[TopicAndPartition] = frozenset()
        self._connector = ConsumerConnector(properties)
        self._connector.set_consumer_rebalance_listener(self)
        try:
            (self._stream,) = self._connector.create_message_streams_by_filter(topics)
        except BaseException:
            self._connector.close()
            raise
        self._lost_sessions = 0
        with self._changed:
            self._is_reading = True

    def poll(self) -> FetchedDataChunk | None:
        self._release_if_wanted()
        self._check_losses()
        return next(self._stream.chunks(timeout=POLL_MS / 1000), None)

    def _check_losses(self) -> None:
        """Note a lost session: all partitions are lost, without a call of the listener."""
        lost_sessions = self._connector.lost_sessions
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
        ours = {each: offset for each, offset in positions.items() if each in self._owned}
        try:
            self._connector.commit(ours)
        except ZooKeeperConnectionLost as error:
            log.warning("%s", error)
            return False
        return True

    @property
    def stopped(self) -> Stopped:
        return self._connector.stopped

    def close(self) -> None:
        with self._changed:
            self._is_reading = False
            self._changed.notify_all()
        self._connector.close()

    # --- the rebalancing thread

    def before_releasing_partitions(self, partition_ownership: dict[str, set[int]]) -> None:
        """Wait until the stream's thread has committed."""
        with self._changed:
            if self._is_reading and partition_ownership:
                self._is_release_wanted = True
                self._changed.wait_for(lambda: not (self._is_release_wanted and self._is_reading))
            self._owned -= {
                TopicAndPartition(topic, partition)
                for topic, partitions in partition_ownership.items()
                for partition in partitions
            }
        if self._listener is not None:
            self._listener.before_releasing_partitions(partition_ownership)

    def before_starting_fetchers(
        self, consumer_id: str, partition_assignment: dict[str, dict[int, ConsumerThreadId]]
    ) -> None:
        """Remember which partitions are ours."""
        self._owned = frozenset(
            TopicAndPartition(topic, partition)
            for topic, threads in partition_assignment.items()
            for partition, thread in threads.items()
            if thread.consumer == consumer_id
        )
        if self._listener is not None:
            self._listener.before_starting_fetchers(consumer_id, partition_assignment)

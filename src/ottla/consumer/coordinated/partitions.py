"""AssignedPartitions: the partitions of a member, read by one fetch engine into one inbox."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ottla.consumer.reading.held_chunks import HeldChunk, HeldChunks, ReadingPosition
from ottla.consumer.reading.reader_state import feed_of, retry_all
from ottla.fetching.commit_positions import commit_positions
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.feed_interface import BY_RESET_POLICY
from ottla.fetching.fetch_errors import PartitionError
from ottla.fetching.inbox import Inbox
from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.errors import ConfigError
from ottla.model.offset_spec import UNKNOWN_OFFSET
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.stop_note import noted, stop_note
from ottla.records.rows import Deserializer, RowMaker


class Engine(Protocol):
    """The part of a fetch engine that is needed here, whatever drives it."""

    @property
    def feeds(self) -> Mapping[TopicAndPartition, PartitionFeed]:
        """The feeds of all partitions that are read."""

    @property
    def stopped(self) -> dict[TopicAndPartition, PartitionError]:
        """The partitions that cannot be read at present, and why."""

    def add(
        self, topic_partition: TopicAndPartition, offset: int, *, inbox: Inbox | None = None
    ) -> PartitionFeed:
        """Read a partition."""

    def remove(self, topic_partition: TopicAndPartition) -> None:
        """Stop reading a partition."""


class AssignedPartitions:
    """Belongs to the polling thread; `wake` and `is_assigned` may be called from any thread."""

    def __init__(
        self,
        engine: Engine,
        inbox: Inbox,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
    ) -> None:
        self._deserializers = key_deserializer, value_deserializer
        self._inbox = inbox
        self.engine = engine
        self._held = HeldChunks()
        self._starts: dict[TopicAndPartition, int] = {}  # assigned, but not read yet
        self._paused: set[TopicAndPartition] = set()

    def wake(self) -> None:
        """End a `hold` that waits. From any thread."""
        self._inbox.wake()

    @property
    def assigned(self) -> frozenset[TopicAndPartition]:
        """All assigned partitions."""
        return frozenset((*self._held, *self._starts))

    def is_assigned(self, topic_partition: TopicAndPartition) -> bool:
        """Whether the partition is assigned. From any thread."""
        return topic_partition in self._held or topic_partition in self._starts

    def check_assigned(self, topic_partition: TopicAndPartition) -> None:
        """Raise ConfigError if the partition is not assigned."""
        if not self.is_assigned(topic_partition):
            assigned = ", ".join(map(str, sorted(self.assigned))) or "nothing"
            raise ConfigError(f"{topic_partition} is not assigned to this member; it has {assigned}")

    # --- coming and going

    def announce(
        self, partitions: Iterable[TopicAndPartition], starts: Mapping[TopicAndPartition, int]
    ) -> None:
        """Assign partitions without reading them yet, so that a listener can seek before `begin`."""
        for topic_partition in sorted(partitions):
            self._starts[topic_partition] = starts.get(topic_partition, BY_RESET_POLICY)

    def begin(self) -> None:
        """Start to read the announced partitions."""
        for topic_partition, start in list(self._starts.items()):
            feed = self.engine.add(topic_partition, start, inbox=self._inbox)
            maker = RowMaker(*topic_partition, *self._deserializers)
            self._held.add(ReadingPosition(feed, start, maker))
            del self._starts[topic_partition]
            if topic_partition in self._paused:
                feed.pause()

    def remove(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Stop reading these partitions, and drop their chunks."""
        for topic_partition in sorted(partitions):
            self.engine.remove(topic_partition)
            self._paused.discard(topic_partition)
            self._starts.pop(topic_partition, None)
            position = self._held.remove(topic_partition)
            if position is not None:
                position.drop()

    # --- reading

    def hold(self, timeout_ms: float) -> HeldChunk | None:
        """Return the next chunk to hand out, partly read or new, but none of a paused partition.

        Returns None after `timeout_ms`, or when `wake` is called.
        """
        chunk = self._held.next(but_not=self._paused)
        if chunk is None and self._held.take(lambda: self._inbox.poll(timeout_ms)) is not None:
            chunk = self._held.next(but_not=self._paused)
        return chunk

    # --- positions

    def positions(self) -> dict[TopicAndPartition, int]:
        """The positions of all partitions that are read; without those whose start is not known yet."""
        positions = {topic_partition: self.position(topic_partition) for topic_partition in self._held}
        return {
            topic_partition: position
            for topic_partition, position in positions.items()
            if position != UNKNOWN_OFFSET
        }

    def committable(self) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """The positions for a commit, with a note for each partition that cannot be read."""
        return self.noted(commit_positions(None, self.positions))

    def noted(
        self, positions: Mapping[TopicAndPartition, OffsetAndMetadata]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """These positions, with a note for each partition that cannot be read, for `ottla lag`."""
        return noted(
            positions, {each: stop_note(report.error) for each, report in self.engine.stopped.items()}
        )

    def position(self, topic_partition: TopicAndPartition) -> int:
        """The offset after the last record that was handed out; UNKNOWN_OFFSET before it is known."""
        self.check_assigned(topic_partition)
        if topic_partition in self._held:
            return self._held[topic_partition].position
        start = self._starts[topic_partition]
        return start if start >= 0 else UNKNOWN_OFFSET

    def seek(self, topic_partition: TopicAndPartition, offset: int) -> None:
        """Continue at `offset`, EARLIEST or LATEST; chunks that wait are dropped."""
        self.check_assigned(topic_partition)
        if topic_partition in self._starts:
            self._starts[topic_partition] = offset
        else:
            self._held[topic_partition].seek(offset)

    def skip(self, topic_partition: TopicAndPartition) -> int:
        """Continue after damaged or too large records; returns that offset."""
        self.check_assigned(topic_partition)
        return feed_of(self.engine.feeds, topic_partition).skip()

    def retry(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Fetch now where errors stopped these partitions; all if none is named."""
        retry_all(self.engine.feeds, partitions)

    def pause(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Hand out nothing of these partitions, not even the rest of a chunk that is read row by row."""
        for topic_partition in partitions:
            self.check_assigned(topic_partition)
            self._paused.add(topic_partition)
            if topic_partition in self._held:
                self._held[topic_partition].feed.pause()
                self._held[topic_partition].end_rows()

    def resume(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Undo `pause`."""
        for topic_partition in partitions:
            self.check_assigned(topic_partition)
            self._paused.discard(topic_partition)
            if topic_partition in self._held:
                self._held[topic_partition].feed.resume()

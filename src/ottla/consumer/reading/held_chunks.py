"""Chunks that a consumer has taken from its feeds and is handing out, and its position to the row.

    feeds ── take ──▶ HeldChunks ── next ──▶ HeldChunk ── rows, or take_rest ──▶ the application

- One lock for a consumer: `HeldChunks.lock`. It is held while a chunk is taken or dropped, while a seek is
  made and while positions are read. Rows are handed out without it; `Rows` has its own.
- A KeyboardInterrupt between taking a chunk from a feed and holding it would lose the chunk. So if `take` is
  interrupted, every feed goes back to the end of its last held chunk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.feed import PartitionFeed
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.rows import RowMaker, Rows
from ottla.records.typed_records import NO_SCHEMAS


class HeldChunk:
    """A chunk with rows left to hand out.

    Only `rows` refers to its batch, and frees rows once they are handed out.
    """

    __slots__ = ("_chunk", "is_looked_up", "rows")

    def __init__(self, chunk: FetchedDataChunk, maker: RowMaker) -> None:
        self._chunk = replace(chunk, batch=None, schemas=maker.schemas)
        self.rows: Rows = maker.rows(chunk.batch)
        self.is_looked_up = maker.schemas == NO_SCHEMAS

    @property
    def topic_partition(self) -> TopicAndPartition:
        """Where the rows are from."""
        return self._chunk.topic_partition

    @property
    def next_offset(self) -> int:
        """The offset after the whole chunk."""
        return self._chunk.next_offset

    @property
    def position(self) -> int:
        """The offset of the next row; `next_offset` when none is left."""
        rest = self.rows.rest()
        return rest.column("offset")[0].as_py() if rest.num_rows else self.next_offset

    def lookups(self) -> list[Callable[[], None]]:
        """Functions that ask a registry for the schemas of the rows that are left. They block."""
        rest = self.rows.rest()
        pairs = [
            (name, schema) for name, schema in self._chunk.schemas._asdict().items() if schema is not None
        ]
        lookups = [schema.lookup(rest.column(name)) for name, schema in pairs if hasattr(schema, "lookup")]
        return [lookup for lookup in lookups if lookup is not None]

    @property
    def is_finished(self) -> bool:
        """Whether all rows were handed out, or dropped."""
        return not self.rows.rest().num_rows

    def take_rest(self) -> FetchedDataChunk | None:
        """Return the rows that are left as a chunk; None if there are none. This chunk is finished then."""
        rest = self.rows.take_rest()
        return replace(self._chunk, batch=rest) if rest.num_rows else None

    def drop(self) -> int | None:
        """Hand out no more rows. Return the offset of the first row that was left; None if there was none."""
        rest = self.rows.take_rest()
        return rest.column("offset")[0].as_py() if rest.num_rows else None


class ReadingPosition:
    """How far one partition is read: its feed, and the chunks that were taken from it and not handed out yet,
    in order.

    Callers hold the lock of the consumer.
    """

    def __init__(self, feed: PartitionFeed, start: int, maker: RowMaker) -> None:
        """`start` is what the feed began with: an offset, or one of the special numbers below 0."""
        self.feed = feed
        self._start = start
        self._maker = maker
        self._held: deque[HeldChunk] = deque()  # the last chunk stays when it is finished, for `go_back`
        self._dropped_at: int | None = None

    @property
    def topic_partition(self) -> TopicAndPartition:
        """The partition that is read."""
        return self.feed.topic_partition

    def hold(self, chunk: FetchedDataChunk) -> None:
        """Note that the chunk was taken from the feed."""
        self._held.append(HeldChunk(chunk, self._maker))

    def current(self) -> HeldChunk | None:
        """The chunk whose rows are to be handed out next."""
        while len(self._held) > 1 and self._held[0].is_finished:
            self._held.popleft()
        return self._held[0] if self._held and not self._held[0].is_finished else None

    @property
    def position(self) -> int:
        """The offset to continue at, after the rows that were handed out; -1 until the start is looked up."""
        if self._dropped_at is not None:
            return self._dropped_at
        current = self.current()
        return current.position if current is not None else self.feed.position

    def drop(self) -> int:
        """Hand out no more of what is held; returns the position, which stays until `seek`."""
        if self._dropped_at is None:
            dropped = [offset for held in self._held if (offset := held.drop()) is not None]
            self._dropped_at = dropped[0] if dropped else self.feed.position
        return self._dropped_at

    def end_rows(self) -> None:
        """End the current iterator over rows. The next iterator gets the rows that are left."""
        current = self.current()
        rest = current.take_rest() if current is not None else None
        if rest is not None:
            self._held[0] = HeldChunk(rest, self._maker)

    def seek(self, start: int) -> None:
        """Drop what is held, and fetch from `start` on."""
        self.drop()
        self._held.clear()
        self._start = start
        self._dropped_at = None
        self.feed.seek(start)

    def go_back(self) -> None:
        """Fetch again from the end of the last held chunk: a chunk may have been taken and lost."""
        if self._held:
            reached = self._held[-1].next_offset
        else:
            reached = self._start if self._start >= 0 else self.feed.start
        if self.feed.position != reached:
            self.feed.seek(reached)


class HeldChunks:
    """All partitions of a consumer. Methods take the lock; hold it for several steps that belong together."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._positions: dict[TopicAndPartition, ReadingPosition] = {}
        # Partitions that may have chunks to hand out, in the order of taking.
        self._unfinished: dict[ReadingPosition, None] = {}

    def __contains__(self, topic_partition: TopicAndPartition) -> bool:
        return topic_partition in self._positions

    def __getitem__(self, topic_partition: TopicAndPartition) -> ReadingPosition:
        return self._positions[topic_partition]

    def __iter__(self) -> Iterator[TopicAndPartition]:
        return iter(list(self._positions))

    def add(self, position: ReadingPosition) -> None:
        """Add a partition whose chunks will be taken."""
        with self.lock:
            self._positions[position.topic_partition] = position

    def remove(self, topic_partition: TopicAndPartition) -> ReadingPosition | None:
        """Take no more chunks of this partition. What is held is still handed out, unless it is dropped."""
        with self.lock:
            return self._positions.pop(topic_partition, None)

    def take(self, poll: Callable[[], FetchedDataChunk | None]) -> ReadingPosition | None:
        """Hold the chunk that `poll` returns, and return its partition; None if there was no chunk.

        Raises what `poll` raises.
        """
        with self.lock:
            try:
                chunk = poll()
                if chunk is None:
                    return None
                position = self._positions[chunk.topic_partition]
                self._unfinished[position] = None
                position.hold(chunk)
            except Exception:
                raise
            except BaseException:
                for position in self._positions.values():
                    position.go_back()
                raise
            return position

    def next(self, *, but_not: Collection[TopicAndPartition] = ()) -> HeldChunk | None:
        """Return the next held chunk, of a partition that is not in `but_not`; None if there is none."""
        with self.lock:
            for position in list(self._unfinished):
                if position.topic_partition in but_not:
                    continue
                current = position.current()
                if current is not None:
                    return current
                del self._unfinished[position]
            return None

    def drop_all(self) -> None:
        """Drop all chunks and hand out nothing more."""
        with self.lock:
            for position in (*self._positions.values(), *self._unfinished):
                position.drop()

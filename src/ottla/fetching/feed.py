"""PartitionFeed: one partition as its reader sees it.

A feed is what a reader's thread and a fetcher's thread share, and the inbox's lock guards it. The reader
takes chunks and says where to read; the fetcher asks what is wanted (`wanted`) and delivers. A seek begins a
new generation: what was fetched for an older one is dropped wherever it is found.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from ottla.client.clock import MONOTONIC, Clock
from ottla.fetching.chunk_queue import ChunkQueue, FetchedDataChunk, Room
from ottla.fetching.errors import ErrorChannel, PartitionError, Reaction
from ottla.fetching.inbox import Inbox
from ottla.fetching.places import (
    UNKNOWN_OFFSET,
    BrokerAndInitialOffset,
    PartitionTopicInfo,
    TopicAndPartition,
)
from ottla.model.errors import ConfigError, CorruptRecord

LATEST = -1
EARLIEST = -2
"""Instead of an offset: the log's end or beginning, as ListOffsets writes it."""
BY_RESET_POLICY = -3
"""Instead of an offset: wherever auto.offset.reset says, as for a group that has committed nothing."""


class Want(Enum):
    """What a fetcher shall do about a partition."""

    FETCH = "fetch"
    FULL = "wait for the reader"
    PARKED = "wait until the reader has taken all"
    IDLE = "nothing: paused, or stopped by an error"
    CLOSED = "forget it"


_BY_ROOM = {Room.OPEN: Want.FETCH, Room.FULL: Want.FULL, Room.PARKED: Want.PARKED}


class Wanted(NamedTuple):
    """`start` is where a new generation begins: an offset, LATEST, EARLIEST or BY_RESET_POLICY."""

    want: Want
    generation: int
    start: int


class Attendant(Protocol):
    """The thread that looks after a partition. Called under the feed's lock, so it only notes and returns."""

    def room_was_made(self) -> None:
        """The reader took a chunk."""

    def orders_changed(self) -> None:
        """The reader paused, resumed, went elsewhere or left."""


class Nobody:
    """No thread at present: whoever takes the partition over looks at its orders first."""

    def room_was_made(self) -> None:
        """Nothing waits for it."""

    def orders_changed(self) -> None:
        """Nothing waits for it."""


NOBODY = Nobody()


class PartitionFeed:
    """Made by `FetchEngine.add`. One reader at a time; everything else may come from any thread."""

    def __init__(
        self,
        topic_partition: TopicAndPartition,
        start: int,
        *,
        queue: ChunkQueue,
        inbox: Inbox | None = None,
        clock: Clock = MONOTONIC,
    ) -> None:
        self.topic_partition = topic_partition
        self.errors = ErrorChannel()
        self._inbox = inbox or Inbox()
        self._changed = self._inbox.changed
        self._queue = queue
        self._clock = clock
        self._attendant: Attendant = NOBODY
        self._start = start
        self._generation = 0
        self._position = self._fetched = start if start >= 0 else UNKNOWN_OFFSET
        self._high_watermark = UNKNOWN_OFFSET
        self._source: BrokerAndInitialOffset | None = None
        self._failure: Exception | None = None
        self._is_failure_told = False
        self._is_listed = False
        self._is_paused = False
        self._is_closed = False

    # --- the reader

    def poll(self, timeout_ms: float | None = None) -> FetchedDataChunk | None:
        """The next chunk; None after so long, or when the feed is closed. None waits without end.

        Raises what stopped the partition, behind its last chunk, each time until `seek` or `skip`.
        """
        with self._changed:
            self._wait(timeout_ms)
            chunk = self._take()
            if chunk is None and self._failure is not None:
                raise self._failure
            return chunk

    def wait(self, timeout_ms: float | None = None) -> bool:
        """Whether `poll` has something within so long, or the end; for readers that take under a lock."""
        with self._changed:
            return self._wait(timeout_ms)

    def _wait(self, timeout_ms: float | None) -> bool:
        seconds = None if timeout_ms is None else timeout_ms / 1000
        return self._changed.wait_for(
            lambda: bool(self._queue) or self._failure is not None or self._is_closed, seconds
        )

    @property
    def position(self) -> int:
        """The next offset that the reader gets; UNKNOWN_OFFSET (-1) until the log's ends are looked up."""
        return self._position

    @property
    def high_watermark(self) -> int:
        """The log's end as the last answer told it; UNKNOWN_OFFSET (-1) before the first."""
        return self._high_watermark

    @property
    def is_parked(self) -> bool:
        """Whether fetches are off until the reader has taken what waits."""
        return self._queue.is_parked

    @property
    def is_closed(self) -> bool:
        """Whether nothing more comes."""
        return self._is_closed

    @property
    def failure(self) -> Exception | None:
        """What stopped the partition, also while chunks from before are left to be taken."""
        return self._failure

    def info(self) -> PartitionTopicInfo:
        """How far the reading is."""
        with self._changed:
            return PartitionTopicInfo(
                *self.topic_partition,
                consumed_offset=self._position,
                fetched_offset=self._fetched,
                high_watermark=self._high_watermark,
                queued_chunks=len(self._queue),
                queued_bytes=self._queue.nbytes,
                is_parked=self._queue.is_parked,
                is_paused=self._is_paused,
                source=self._source,
            )

    def pause(self) -> None:
        """Fetch no more for now; what waits can be taken."""
        with self._changed:
            self._is_paused = True

    def resume(self) -> None:
        """Fetch again."""
        with self._changed:
            self._is_paused = False
            self._attendant.orders_changed()

    def seek(self, offset: int) -> None:
        """Go on at another offset, or LATEST or EARLIEST; what waits is dropped, an error forgotten."""
        if offset < BY_RESET_POLICY:
            raise ConfigError(f"{self.topic_partition}: there is no offset {offset}; give 0 or more")
        with self._changed:
            self._generation += 1
            self._start = offset
            self._position = self._fetched = offset if offset >= 0 else UNKNOWN_OFFSET
            self._queue.clear()
            self._failure = None
            self._attendant.orders_changed()

    def skip(self) -> int:
        """Go on behind what is damaged, at the offset that is returned; what waits can still be taken.

        Raises ConfigError if nothing is damaged.
        """
        with self._changed:
            if not isinstance(self._failure, CorruptRecord):
                raise ConfigError(f"{self.topic_partition} has no damaged records to skip; see its failure")
            offset = self._failure.next_offset or self._fetched + 1
            self._generation += 1
            self._start = self._fetched = offset
            if not self._queue.extend_last(offset):
                self._position = offset
            self._failure = None
            self._attendant.orders_changed()
            return offset

    def close(self) -> None:
        """Nothing more comes, and what waits is dropped. `FetchEngine.remove` calls it."""
        with self._changed:
            self._is_closed = True
            self._queue.clear()
            self._changed.notify_all()
            self._attendant.orders_changed()
        self.errors.close()

    # --- the inbox, which holds the lock

    @property
    def has_news(self) -> bool:
        """Whether there is a chunk to take or an error that was not told; after `close` there is neither."""
        is_untold = self._failure is not None and not self._is_failure_told and not self._is_closed
        return bool(self._queue) or is_untold

    def unlist(self) -> None:
        """The inbox does not have it any more."""
        self._is_listed = False

    def taken_by_inbox(self) -> FetchedDataChunk | None:
        """What `Inbox.poll` hands out."""
        self._is_listed = False
        chunk = self._take()
        if chunk is None and self._failure is not None:
            self._is_failure_told = True
            raise self._failure
        self._enlist()
        return chunk

    def _enlist(self) -> None:
        if self.has_news and not self._is_listed:
            self._is_listed = True
            self._inbox.enlist(self)

    def _take(self) -> FetchedDataChunk | None:
        chunk = self._queue.take(self._clock.now_ms())
        if chunk is not None:
            self._position = chunk.next_offset
            self._attendant.room_was_made()
        return chunk

    # --- the fetcher

    def attach(self, attendant: Attendant, source: BrokerAndInitialOffset | None = None) -> None:
        """Another thread looks after the partition from now on."""
        with self._changed:
            self._attendant = attendant
            self._source = source

    @property
    def queued_bytes(self) -> int:
        """What waits for the reader."""
        return self._queue.nbytes

    @property
    def generation(self) -> int:
        """Counts the seeks; for what concerns the partition wherever its reader is."""
        return self._generation

    def wanted(self, *, share_bytes: int, expected_bytes: int, pending_bytes: int) -> Wanted:
        """What to do about the partition now; see `ChunkQueue.room`."""
        with self._changed:
            if self._is_closed:
                want = Want.CLOSED
            elif self._is_paused or self._failure is not None:
                want = Want.IDLE
            else:
                want = _BY_ROOM[
                    self._queue.room(
                        self._clock.now_ms(),
                        share_bytes=share_bytes,
                        expected_bytes=expected_bytes,
                        pending_bytes=pending_bytes,
                    )
                ]
            return Wanted(want, self._generation, self._start)

    def started(self, generation: int, offset: int) -> bool:
        """The place of a generation that began without an offset has been found."""
        with self._changed:
            if generation != self._generation:
                return False
            self._start = offset
            self._fetched = offset
            if not self._queue:
                self._position = offset
            return True

    def deliver(self, generation: int, chunk: FetchedDataChunk) -> bool:
        """Queue a chunk; False, and it is dropped, if the reader has gone elsewhere."""
        with self._changed:
            if generation != self._generation or self._is_closed:
                return False
            self._queue.put(chunk, self._clock.now_ms())
            self._fetched = chunk.next_offset
            self._high_watermark = chunk.high_watermark
            self._enlist()
            self._changed.notify_all()
            return True

    def passed(self, generation: int, next_offset: int, high_watermark: int) -> bool:
        """An answer had no records to deliver; the offsets up to `next_offset` are done with."""
        with self._changed:
            if generation != self._generation or self._is_closed:
                return False
            self._high_watermark = high_watermark
            if next_offset > self._fetched:
                self._fetched = next_offset
                if not self._queue.extend_last(next_offset):
                    self._position = next_offset
            return True

    def report(self, error: Exception, reaction: Reaction, offset: int) -> PartitionError:
        """Tell the channel."""
        report = PartitionError(self.topic_partition, error, reaction, offset)
        self.errors.report(report)
        return report

    def stop(self, generation: int, error: Exception) -> bool:
        """The reader gets this error behind the last chunk, and nothing is fetched until it decides."""
        with self._changed:
            if generation != self._generation or self._is_closed:
                return False
            self._failure = error
            self._is_failure_told = False
            self._enlist()
            self._changed.notify_all()
            return True

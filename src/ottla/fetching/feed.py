"""PartitionFeed: one partition, between the thread of its reader and the thread of a fetcher.

The inbox's lock guards it. The reader takes chunks and decides where to read; the fetcher calls `wanted` to
learn what to do, and delivers. A seek begins a new generation: chunks of older generations are dropped.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.client.clock import MONOTONIC, Clock, wait_for
from ottla.fetching.chunk_queue import ChunkQueue, FetchedDataChunk, Room
from ottla.fetching.error_channel import ErrorChannel
from ottla.fetching.feed_interface import BY_RESET_POLICY, NO_ATTENDANT, WANT_BY_ROOM, Attendant, Want, Wanted
from ottla.fetching.fetch_errors import PartitionError, Reaction
from ottla.fetching.inbox import Inbox
from ottla.fetching.partition_info import BrokerAndInitialOffset, PartitionTopicInfo
from ottla.model.errors import ConfigError, CorruptRecord, MessageSizeTooLarge
from ottla.model.offset_spec import UNKNOWN_OFFSET
from ottla.model.topic_partition import TopicAndPartition

TROUBLE_MS = 10_000.0
"""How long all tries may fail before a partition counts as stopped: elections and restarts take seconds."""
NEVER = 1 << 63
"""A stop offset that is never reached: the reader wants everything."""
_DONE = {Reaction.SKIP, Reaction.RESET}
"""Reactions that end an error."""


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
        stop_offset: int = NEVER,
    ) -> None:
        self.topic_partition = topic_partition
        self.stop_offset = stop_offset
        self._inbox = inbox or Inbox()
        self._errors: ErrorChannel | None = None
        self._changed = self._inbox.changed
        self._queue = queue
        self._clock = clock
        self._attendant: Attendant = NO_ATTENDANT
        self._start = start
        self._generation = 0
        self._position = self._fetched = start if start >= 0 else UNKNOWN_OFFSET
        self._high_watermark = UNKNOWN_OFFSET
        self._source: BrokerAndInitialOffset | None = None
        self._failure: Exception | None = None
        self._trouble: PartitionError | None = None
        self._trouble_since_ms = 0.0
        self._is_failure_raised = False
        self._is_listed = False
        self._is_paused = False
        self._is_closed = False

    # --- the reader

    @property
    def errors(self) -> ErrorChannel:
        """Reports about the partition. Made when first used: few of ten thousand partitions have any."""
        with self._changed:
            if self._errors is None:
                self._errors = ErrorChannel(self._inbox.outside_condition())
                if self._is_closed:
                    self._errors.close()
            return self._errors

    def poll(self, timeout_ms: float | None = None) -> FetchedDataChunk | None:
        """Take the next chunk; None if none arrives within `timeout_ms`, or when the feed is closed.

        With `timeout_ms=None` waits for ever. Raises the error that stopped the partition, after its last
        chunk, each time until it is read again.
        """
        with self._changed:
            self._wait(timeout_ms)
            chunk = self._take()
            if chunk is None and self._failure is not None:
                raise self._failure
            return chunk

    def wait(self, timeout_ms: float | None = None) -> bool:
        """Wait until `poll` would return at once; False after `timeout_ms`. Takes nothing."""
        with self._changed:
            return self._wait(timeout_ms)

    def _wait(self, timeout_ms: float | None) -> bool:
        seconds = None if timeout_ms is None else timeout_ms / 1000
        return wait_for(self._changed, self.is_ready, seconds)

    def is_ready(self) -> bool:
        """Whether `poll` would return at once. Called under the lock."""
        return bool(self._queue) or self._failure is not None or self._is_closed

    @property
    def position(self) -> int:
        """The next offset that the reader gets; UNKNOWN_OFFSET (-1) until the log's ends are looked up."""
        return self._position

    @property
    def start(self) -> int:
        """Where the last seek went: an offset, or below 0 until the log's ends are looked up."""
        return self._start

    @property
    def high_watermark(self) -> int:
        """The log's end in the last response; UNKNOWN_OFFSET (-1) before the first."""
        return self._high_watermark

    @property
    def is_parked(self) -> bool:
        """Whether nothing is fetched until the reader has taken all queued chunks."""
        return self._queue.is_parked

    @property
    def is_closed(self) -> bool:
        """Whether the feed was closed."""
        return self._is_closed

    @property
    def failure(self) -> Exception | None:
        """The error that stopped the partition, even while earlier chunks are left to take; None if it is not
        stopped.
        """
        return self._failure

    @property
    def trouble(self) -> PartitionError | None:
        """The last error if every try since then has failed, with the number of repetitions; else None."""
        return self._trouble

    @property
    def stopped(self) -> PartitionError | None:
        """Why the partition is not read: an error stopped it, or no try has succeeded for TROUBLE_MS."""
        with self._changed:
            trouble = self._trouble
            if trouble is None or self._is_closed:
                return None
            has_lasted = self._clock.now_ms() - self._trouble_since_ms >= TROUBLE_MS
            return trouble if self._failure is not None or has_lasted else None

    def info(self) -> PartitionTopicInfo:
        """A snapshot of positions and queue."""
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
        """Fetch no more for now. Queued chunks can still be taken."""
        with self._changed:
            self._is_paused = True
            self._attendant.orders_changed()

    def resume(self) -> None:
        """Fetch again."""
        with self._changed:
            self._is_paused = False
            self._attendant.orders_changed()

    def seek(self, offset: int) -> None:
        """Continue at an offset, LATEST or EARLIEST. Queued chunks are dropped, an error is forgotten."""
        if offset < BY_RESET_POLICY:
            raise ConfigError(f"{self.topic_partition}: there is no offset {offset}; give 0 or more")
        with self._changed:
            self._generation += 1
            self._start = offset
            self._position = self._fetched = offset if offset >= 0 else UNKNOWN_OFFSET
            self._queue.clear()
            self._forget_trouble()
            self._attendant.orders_changed()

    def skip(self) -> int:
        """Continue after damaged or too large records, at the offset that is returned.

        Queued chunks can still be taken. Raises ConfigError if no such records stopped the partition.
        """
        with self._changed:
            failure = self._failure
            if not isinstance(failure, CorruptRecord | MessageSizeTooLarge):
                why = f"stopped for another reason, so seek() or retry(): {failure}" if failure else "read"
                raise ConfigError(f"{self.topic_partition} has no records to skip: it is {why}")
            offset = failure.next_offset or self._fetched + 1
            self._start = self._fetched = offset
            if not self._queue.extend_last(offset):
                self._position = offset
            self._begin_again()
            return offset

    def retry(self) -> None:
        """Fetch now from where the partition stopped. Queued chunks can still be taken."""
        with self._changed:
            if self._fetched != UNKNOWN_OFFSET:
                self._start = self._fetched
            self._begin_again()

    def _begin_again(self) -> None:
        self._generation += 1
        self._forget_trouble()
        self._attendant.orders_changed()

    def _forget_trouble(self) -> None:
        self._failure = self._trouble = None

    def close(self) -> None:
        """Fetch nothing more, and drop queued chunks. `FetchEngine.remove` calls it."""
        with self._changed:
            self._is_closed = True
            self._queue.clear()
            self._changed.notify_all()
            self._attendant.orders_changed()
            errors = self._errors
        if errors is not None:
            errors.close()

    # --- the inbox, which holds the lock

    @property
    def has_news(self) -> bool:
        """Whether there is a chunk, or an error that was not raised yet; neither after `close`."""
        is_new = self._failure is not None and not self._is_failure_raised and not self._is_closed
        return bool(self._queue) or is_new

    def unlist(self) -> None:
        """Note that the inbox has removed this feed from its list."""
        self._is_listed = False

    def taken_by_inbox(self) -> FetchedDataChunk | None:
        """Return the chunk for `Inbox.poll`; raise the error of a stopped partition once."""
        self._is_listed = False
        chunk = self._take()
        if chunk is None and self._failure is not None:
            self._is_failure_raised = True
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
        """Have another thread fetch the partition from now on."""
        with self._changed:
            self._attendant = attendant
            self._source = source

    @property
    def queued_bytes(self) -> int:
        """The bytes of queued chunks."""
        return self._queue.nbytes

    @property
    def generation(self) -> int:
        """The number of seeks and skips."""
        return self._generation

    def wanted(self, *, share_bytes: int, expected_bytes: int, pending_bytes: int) -> Wanted:
        """Return what the fetcher has to do now. The sizes are those of `ChunkQueue.room`."""
        with self._changed:
            if self._is_closed:
                want = Want.CLOSED
            elif self._is_paused:
                want = Want.IDLE
            else:
                room = self._queue.room(
                    self._clock.now_ms(),
                    share_bytes=share_bytes,
                    expected_bytes=expected_bytes,
                    pending_bytes=pending_bytes,
                )
                want = Want.FETCH if room is Room.OPEN else WANT_BY_ROOM[room]  # a look-up costs a call
            return Wanted(want, self._generation, self._start)

    def started(self, generation: int, offset: int) -> bool:
        """Note the offset where a generation begins. Returns False if there is a newer generation."""
        with self._changed:
            if generation != self._generation:
                return False
            self._start = offset
            self._fetched = offset
            if not self._queue:
                self._position = offset
            return True

    def deliver(self, generation: int, chunk: FetchedDataChunk) -> bool:
        """Queue a chunk. Returns False, and drops it, if there is a newer generation."""
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
        """Note that the offsets before `next_offset` have no records to deliver.

        Returns False if there is a newer generation.
        """
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
        """Report an error to `errors`; returns it with the number of repetitions."""
        report = PartitionError(self.topic_partition, error, reaction, offset)
        self.errors.report(report)
        if reaction in _DONE:
            return report
        with self._changed:
            before = self._trouble
            if before is None:
                self._trouble_since_ms = self._clock.now_ms()
            elif before.repeats(report):
                report = replace(report, times=before.times + 1)
            self._trouble = report
        return report

    def stop(self, generation: int, error: Exception) -> bool:
        """Raise this error in the reader after the last chunk; an inbox raises it only the first time."""
        with self._changed:
            if generation != self._generation or self._is_closed:
                return False
            if self._failure is None:
                self._is_failure_raised = False
            self._failure = error
            self._enlist()
            self._changed.notify_all()
            return True

    def recovered(self, generation: int) -> bool:
        """Note that the partition can be read again. Returns whether it was stopped."""
        with self._changed:
            was_stopped = self._failure is not None and generation == self._generation
            if generation == self._generation:
                self._forget_trouble()
            return was_stopped

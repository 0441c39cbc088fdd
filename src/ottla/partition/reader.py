"""PartitionReader: one partition, as rows or as columns, from where its reader is.

A chunk is taken from the feed and becomes the held one, under the lock that `seek` and `close` take too. So
what is seen after a `seek` has returned is from there on, in whatever thread it was called. Iterators end,
and new ones go on, in the middle of a chunk: nothing is lost and nothing comes twice.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa

from ottla.client.clock import MONOTONIC, Deadline
from ottla.fetching import UNKNOWN_OFFSET, FetchedDataChunk, PartitionError, PartitionFeed, TopicAndPartition
from ottla.partition.config import limit, start_of
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import RowMaker, Rows


class Held(NamedTuple):
    """A chunk that is being read. Only the rows have its batch, since they let go of it."""

    chunk: FetchedDataChunk
    rows: Rows

    def take_rest(self) -> FetchedDataChunk | None:
        """What is left of it as a chunk."""
        rest = self.rows.take_rest()
        return replace(self.chunk, batch=rest) if rest.num_rows else None


class PartitionReader:
    """Made by `PartitionConsumer.consume_partition`. One thread iterates; the rest may come from any."""

    def __init__(
        self,
        feed: PartitionFeed,
        rows: RowMaker,
        *,
        lock: threading.RLock,
        leave: Callable[[TopicAndPartition], None],
        start: int,
        timeout_ms: float | None,
    ) -> None:
        """`leave` ends the feed; `lock` is held while chunks are taken, and is the consumer's."""
        self._feed = feed
        self._start = start
        self._row_maker = rows
        self._lock = lock
        self._leave = leave
        self._timeout_ms = timeout_ms
        self._held: deque[Held] = deque()
        self._is_ending = False
        self._is_over = False

    # --- reading

    def messages(self, timeout_ms: float | None = None) -> Iterator[MessageAndMetadata[Any, Any]]:
        """One by one, in order. Ends when nothing comes for so long, and when the reader is closed.

        Without a timeout it is consumer.timeout.ms; -1 waits without end. Raises what stopped the partition,
        behind its last sound record, each time until `seek` or `skip`.
        """
        return chain.from_iterable(held.rows for held in self._turns(timeout_ms))

    def batches(self, timeout_ms: float | None = None) -> Iterator[pa.RecordBatch]:
        """The same as Arrow columns: offset, timestamp, timestamp_type, key, value, and headers on request.

        Batches are never empty. `position` tells where to go on behind the last one.
        """
        # Empty if another thread went elsewhere meanwhile.
        return filter(len, (held.rows.take_rest() for held in self._turns(timeout_ms)))

    def errors(self, timeout_ms: float | None = None) -> Iterator[PartitionError]:
        """What went wrong, and what was done about it; those that nobody has taken yet.

        Ends when none comes for so long, 0 is at once, and when the reader is closed.
        """
        limit_ms = self._limit(timeout_ms)
        while (report := self._feed.errors.poll(limit_ms)) is not None:
            yield report

    # --- where it is

    @property
    def topic(self) -> str:
        """What it reads."""
        return self._feed.topic_partition.topic

    @property
    def partition(self) -> int:
        """What it reads."""
        return self._feed.topic_partition.partition

    @property
    def position(self) -> int:
        """The offset to go on at, to the row; -1 until the start has been looked up."""
        with self._lock:
            held = self.unfinished()
            return held.rows.rest().column("offset")[0].as_py() if held is not None else self._feed.position

    @property
    def high_watermark(self) -> int:
        """The log's end as the last answer told it; -1 before the first."""
        return self._feed.high_watermark

    @property
    def lag(self) -> int | None:
        """Records behind the log's end, as offsets count them; None before it is known."""
        position, end = self.position, self.high_watermark
        return None if UNKNOWN_OFFSET in {position, end} else max(0, end - position)

    @property
    def failure(self) -> Exception | None:
        """What stopped the partition, also while records from before are left to be read."""
        return self._feed.failure

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is fetched, for good."""
        return self._feed.is_closed

    # --- where to read

    def pause(self) -> None:
        """Fetch no more for now. What has been fetched is still delivered."""
        self._feed.pause()

    def resume(self) -> None:
        """Fetch again."""
        self._feed.resume()

    @property
    def is_paused(self) -> bool:
        """Whether `pause` was called last."""
        return self._feed.info().is_paused

    def seek(self, offset: int | str) -> None:
        """Go on at another offset, "earliest" or "latest"; what stopped the partition is forgotten."""
        start = start_of(offset)
        with self._lock:
            self._start = start
            self._drop()
            self._feed.seek(start)

    def skip(self) -> int:
        """Go on behind damaged records, at the offset that is returned. ConfigError if there are none."""
        return self._feed.skip()

    # --- the end

    def async_close(self) -> None:
        """Fetch no more. What has been fetched is still delivered, then iterators end."""
        with self._lock:
            self._is_ending = True
            self._feed.pause()
            self._leave_if_done()

    def close(self) -> None:
        """End now, from any thread; what was not read is dropped. Errors stay until they are taken."""
        with self._lock:
            self._is_over = True
            self._leave(self._feed.topic_partition)
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- for the consumer, who has the lock

    def hold(self, chunk: FetchedDataChunk) -> None:
        """A chunk of this partition was taken."""
        self._held.append(Held(replace(chunk, batch=None), self._row_maker.rows(chunk.batch)))
        self._leave_if_done()

    def unfinished(self) -> Held | None:
        """What is to be read next, of what is held."""
        with self._lock:
            while len(self._held) > 1 and not self._held[0].rows.rest():
                self._held.popleft()
            return self._held[0] if self._held and self._held[0].rows.rest() else None

    def go_back(self) -> None:
        """Ctrl-C may have come between the taking of a chunk and its being held: fetch that one again."""
        reached = self._held[-1].chunk.next_offset if self._held else self._start
        if self._feed.position != reached:
            self._feed.seek(reached)

    def _leave_if_done(self) -> None:
        if self._is_ending and not self._feed.info().queued_chunks:
            self._leave(self._feed.topic_partition)

    def _drop(self) -> None:
        for held in self._held:
            held.rows.drop()
        self._held.clear()

    # --- taking

    def _limit(self, timeout_ms: float | None) -> float | None:
        return self._timeout_ms if timeout_ms is None else limit(timeout_ms)

    def _turns(self, timeout_ms: float | None) -> Iterator[Held]:
        limit_ms = self._limit(timeout_ms)
        while (held := self._next(limit_ms)) is not None:
            yield held

    def _next(self, timeout_ms: float | None) -> Held | None:
        """What to read next; None after so long, and at the end."""
        deadline = Deadline(MONOTONIC, timeout_ms)
        while True:
            with self._lock:
                held = self.unfinished()
                if held is not None or self._is_over:
                    return held
                try:
                    chunk = self._feed.poll(0)
                    if chunk is not None:
                        self.hold(chunk)
                        continue
                except Exception:
                    raise
                except BaseException:
                    self.go_back()
                    raise
                if self._feed.is_closed:
                    return None
            if not self._feed.wait(deadline.left_ms()):
                return None

"""PartitionReader: one partition, as messages or as columns, from the reader's position on.

Chunks are taken from the feed under the lock that `seek` and `close` take too. So after a `seek` has
returned, rows come from the new offset only, whatever thread called it. An iterator may end in the middle of
a chunk, and the next one continues there: no row is lost or repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.offset_lookup import OffsetLookup
from ottla.consumer.partition.partition_config import wait_ms
from ottla.consumer.reading.held_chunks import HeldChunk, HeldChunks, ReadingPosition
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.fetch_errors import PartitionError
from ottla.model.closing import Closing
from ottla.model.offset_spec import UNKNOWN_OFFSET, OffsetSpec
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import MessageAndMetadata


class PartitionReader(Closing):
    """Made by `PartitionConsumer.consume_partition`. One thread iterates; other calls may come from any.

    >>> from ottla import PartitionConsumer
    >>> with PartitionConsumer(bootstrap_servers="127.0.0.1:9092") as consumer:
    ...     reader = consumer.consume_partition("orders", 0, "earliest")
    ...     print(next(reader.messages()).value, reader.position, reader.lag)
    ...     reader.seek(2)
    ...     print(next(reader.chunks()).batch["value"][0])
    b'tea' 1 2
    b'cake'
    """

    def __init__(
        self,
        position: ReadingPosition,
        held: HeldChunks,
        lookup: OffsetLookup,
        *,
        remove: Callable[[TopicAndPartition], None],
        timeout_ms: float | None,
    ) -> None:
        """`held` has the chunks of all readers of the consumer; `remove` ends the feed."""
        self._position = position
        self._held = held
        self._lookup = lookup
        self._feed = position.feed
        self._lock = held.lock
        self._remove = remove
        self._timeout_ms = timeout_ms
        self._is_ending = False
        self._is_over = False

    def __repr__(self) -> str:
        if self.is_closed:
            state = "closed"
        elif self.failure is not None:
            state = f"stopped at offset {self.position}: {self.failure}"
        else:
            paused = ", paused" if self.is_paused else ""
            state = f"at offset {self.position}, log end {self.high_watermark}{paused}"
        return f"<PartitionReader of {self.topic_partition}: {state}>"

    # --- reading

    def __iter__(self) -> Iterator[MessageAndMetadata[Any, Any]]:
        """Iterate over messages, as `messages()`."""
        return self.messages()

    def messages(self, timeout: float | None = None) -> Iterator[MessageAndMetadata[Any, Any]]:
        """Iterate over messages in order, until none arrives within `timeout` seconds or the reader ends.

        With `timeout=None` consumer.timeout.ms counts if it is set, else it waits for ever. Raises the error
        that stopped the partition, after its last sound record, each time until it is read again.
        """
        return chain.from_iterable(chunk.rows for chunk in self._chunks(timeout))

    def chunks(self, timeout: float | None = None) -> Iterator[FetchedDataChunk]:
        """Iterate over chunks: `topic_partition`, `batch`, and `next_offset`, the offset after the chunk.

        The batch has Arrow columns: offset, timestamp, timestamp_type, key, value, and headers with
        include.headers; it is never empty. Ends and raises as `messages`.
        """
        return filter(None, (chunk.take_rest() for chunk in self._chunks(timeout)))

    def errors(self, timeout: float | None = None) -> Iterator[PartitionError]:
        """Iterate over error reports that were not taken yet: what went wrong, and what was done about it.

        Ends if none comes within `timeout` seconds, as `messages`, and when the reader is closed. With 0 it
        does not wait.
        """
        timeout_ms = wait_ms(timeout, self._timeout_ms)
        while (report := self._feed.errors.poll(timeout_ms)) is not None:
            yield report

    # --- where it is

    @property
    def topic_partition(self) -> TopicAndPartition:
        """The partition that it reads."""
        return self._feed.topic_partition

    @property
    def topic(self) -> str:
        """The topic of the partition."""
        return self._feed.topic_partition.topic

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self._feed.topic_partition.partition

    @property
    def position(self) -> int:
        """The offset of the next message; -1 until the start has been looked up."""
        with self._lock:
            return self._position.position

    @property
    def high_watermark(self) -> int:
        """The log's end in the last fetch response; -1 before the first."""
        return self._feed.high_watermark

    @property
    def lag(self) -> int | None:
        """The number of offsets up to the log's end; None before that is known."""
        position, end = self.position, self.high_watermark
        return None if UNKNOWN_OFFSET in {position, end} else max(0, end - position)

    @property
    def failure(self) -> Exception | None:
        """The error that stopped the partition, even while earlier records are left to read; else None."""
        return self._feed.failure

    @property
    def stopped(self) -> PartitionError | None:
        """Why the partition cannot be read at present: `skip`, `seek` or `retry` ends that; else None."""
        return self._feed.stopped

    @property
    def is_closed(self) -> bool:
        """Whether the reader has ended: nothing more will be fetched."""
        return self._feed.is_closed

    # --- where to read

    def pause(self) -> None:
        """Fetch no more for now. What has been fetched is still handed out."""
        self._feed.pause()

    def resume(self) -> None:
        """Fetch again."""
        self._feed.resume()

    @property
    def is_paused(self) -> bool:
        """Whether `pause` was called, and `resume` was not called after it."""
        return self._feed.info().is_paused

    def seek(self, offset: OffsetSpec) -> None:
        """Continue at `offset`: a number, "earliest", "latest", a datetime with a time zone or a timedelta.

        Forgets the error that stopped the partition. Asks the leader only if `offset` is a time; raises
        OttlaError if the leader does not answer within request.timeout.ms.
        """
        start = self._lookup.start(self.topic_partition, offset)
        with self._lock:
            self._position.seek(start)

    def tail(self, count: int) -> None:
        """Continue at the last `count` records, by offsets. Asks the leader where the log ends."""
        self.seek(self._lookup.tail([self.topic_partition], count)[self.topic_partition])

    def skip(self) -> int:
        """Continue after damaged or too large records, and return that offset.

        Raises ConfigError if no such records stopped the partition.
        """
        return self._feed.skip()

    def retry(self) -> None:
        """Fetch now from where an error stopped the partition, instead of after a pause."""
        self._feed.retry()

    # --- the end

    def async_close(self) -> None:
        """Fetch no more. What has been fetched is still handed out, then iterators end."""
        with self._lock:
            self._is_ending = True
            self._feed.pause()
            self._remove_if_done()

    def close(self) -> None:
        """End now, from any thread; what was not read is dropped. Errors stay until they are taken."""
        with self._lock:
            self._is_over = True
            self._remove(self.topic_partition)
            self._position.drop()

    # --- taking chunks

    def _remove_if_done(self) -> None:
        """After `async_close`: end when all that was fetched is taken. Called after every chunk."""
        if self._is_ending and not self._feed.info().queued_chunks:
            self._remove(self.topic_partition)

    def _chunks(self, timeout: float | None) -> Iterator[HeldChunk]:
        timeout_ms = wait_ms(timeout, self._timeout_ms)
        while (chunk := self._next(timeout_ms)) is not None:
            yield chunk

    def _next(self, timeout_ms: float | None) -> HeldChunk | None:
        """The chunk to hand out next; None after `timeout_ms` and when the reader has ended."""
        deadline = Deadline(MONOTONIC, timeout_ms)
        while True:
            with self._lock:
                current = self._position.current()
                if current is not None or self._is_over:
                    return current
                if self._held.take(lambda: self._feed.poll(0)) is not None:
                    self._remove_if_done()
                    continue
                if self._feed.is_closed:
                    return None
            if not self._feed.wait(deadline.left_ms()):
                return None

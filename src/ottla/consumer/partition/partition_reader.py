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
from ottla.consumer.partition.base_partition_consumer import BasePartitionReader
from ottla.consumer.partition.partition_config import wait_ms
from ottla.consumer.reading.held_chunks import HeldChunk, HeldChunks, ReadingPosition
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.fetch_errors import PartitionError
from ottla.model.closing import Closing
from ottla.model.offset_spec import OffsetSpec
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import MessageAndMetadata


class PartitionReader(BasePartitionReader, Closing):
    """Made by `PartitionConsumer.consume_partition`.

    One thread iterates; any thread may call the other methods.

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
        super().__init__(position, held, remove=remove, timeout_ms=timeout_ms)
        self._lookup = lookup

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

    # --- where to read

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

    # --- the end

    def close(self) -> None:
        """End now, from any thread; what was not read is dropped. Errors stay until they are taken."""
        self._end_now()

    # --- taking chunks

    def _chunks(self, timeout: float | None) -> Iterator[HeldChunk]:
        timeout_ms = wait_ms(timeout, self._timeout_ms)
        while (chunk := self._next(timeout_ms)) is not None:
            yield chunk

    def _next(self, timeout_ms: float | None) -> HeldChunk | None:
        """The chunk to hand out next; None after `timeout_ms` and when the reader has ended."""
        deadline = Deadline(MONOTONIC, timeout_ms)
        while True:
            chunk = self._taken()
            if chunk is not None or self._has_ended:
                return chunk
            if not self._feed.wait(deadline.left_ms()):
                return None

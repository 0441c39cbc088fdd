"""What the readers of partitions have in common, whether threads or coroutines wait for records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.consumer.partition.partition_config import PartitionConfig
from ottla.consumer.reading.health import Health
from ottla.consumer.reading.held_chunks import HeldChunk, HeldChunks, ReadingPosition
from ottla.consumer.reading.reader_state import ReaderMetrics, Stopped, retry_all
from ottla.fetching.fetch_errors import PartitionError
from ottla.fetching.inbox import Inbox
from ottla.fetching.partition_feeds import PartitionFeeds
from ottla.model.errors import ConfigError
from ottla.model.offset_spec import UNKNOWN_OFFSET
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.rows import Deserializer, RowMaker


class BasePartitionReader:
    """One partition: the state of its reader, and the methods that need not wait."""

    def __init__(
        self,
        position: ReadingPosition,
        held: HeldChunks,
        *,
        remove: Callable[[TopicAndPartition], None],
        timeout_ms: float | None,
    ) -> None:
        """`held` has the chunks of all readers of the consumer; `remove` ends the feed."""
        self._position = position
        self._held = held
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
            state = f"at {_offset(self.position)}, log end {_offset(self.high_watermark)}{paused}"
        return f"<{type(self).__name__} of {self.topic_partition}: {state}>"

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
        """Stop fetching. What has been fetched is still handed out, then iterators end."""
        with self._lock:
            self._is_ending = True
            self._feed.pause()
            self._remove_if_done()

    def _end_now(self) -> None:
        """End now and drop what was not read. Error reports stay until they are taken."""
        with self._lock:
            self._is_over = True
            self._remove(self.topic_partition)
            self._position.drop()

    def _remove_if_done(self) -> None:
        """After `async_close`, end the reader once everything that was fetched is taken.

        Called after every chunk.
        """
        if self._is_ending and not self._feed.info().queued_chunks:
            self._remove(self.topic_partition)

    # --- taking chunks

    def _taken(self) -> HeldChunk | None:
        """The chunk to hand out next; None if there is none now. Raises what stopped the partition."""
        with self._lock:
            while True:
                current = self._position.current()
                if current is not None or self._is_over:
                    return current
                if self._held.take(lambda: self._feed.poll(0)) is None:
                    return None
                self._remove_if_done()

    @property
    def _has_ended(self) -> bool:
        return self._is_over or self._feed.is_closed


R = TypeVar("R", bound=BasePartitionReader)


class BasePartitionConsumer(Generic[R]):
    """Partitions that the application chose, each with its reader."""

    _engine: PartitionFeeds

    def __init__(
        self,
        config: PartitionConfig,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        inbox: Inbox,
    ) -> None:
        self._config = config
        self._deserializers = key_deserializer, value_deserializer
        self._servers = ", ".join(map(str, self._config.client.bootstrap))
        self._box = inbox
        self._held = HeldChunks()
        self._lock = self._held.lock
        self._readers: dict[TopicAndPartition, R] = {}

    def __repr__(self) -> str:
        reads = ", ".join(
            f"{partition} at {_offset(reader.position)}" for partition, reader in self.readers.items()
        )
        state = "closed" if self._box.is_closed else reads or "nothing is read"
        return f"<{type(self).__name__} of {self._servers}: {state}>"

    @property
    def readers(self) -> dict[TopicAndPartition, R]:
        """The readers that are not closed, by partition."""
        with self._lock:
            return dict(self._readers)

    def _maker(
        self, wanted: TopicAndPartition, key: Deserializer | None, value: Deserializer | None
    ) -> RowMaker:
        own_key, own_value = self._deserializers
        return RowMaker(*wanted, key or own_key, value or own_value)

    def _opened(
        self,
        wanted: TopicAndPartition,
        start: int,
        maker: RowMaker,
        new_reader: Callable[[ReadingPosition], R],
        add: Callable[..., Any],
    ) -> R:
        """Return a new reader that begins at `start`. Raises ConfigError if the partition is read already."""
        with self._lock:
            if self._box.is_closed:
                raise ConfigError(f"{wanted}: this consumer is closed; make another")
            if wanted in self._readers:
                raise ConfigError(f"{wanted} is being read already: seek() its reader, or close() it first")
            position = ReadingPosition(add(wanted, start, inbox=self._box), start, maker)
            self._held.add(position)
            reader = self._readers[wanted] = new_reader(position)
        return reader

    def _remove(self, topic_partition: TopicAndPartition) -> None:
        self._engine.remove(topic_partition)
        self._held.remove(topic_partition)
        self._readers.pop(topic_partition, None)

    def _taken(self) -> HeldChunk | None:
        """The chunk to hand out next; None if there is none now. Raises what stopped a partition."""
        with self._lock:
            while (chunk := self._held.next()) is None:
                position = self._held.take(lambda: self._box.poll(0))
                if position is None:
                    return None
                self._readers[position.topic_partition]._remove_if_done()
            return chunk

    # --- positions

    def skip(self, topic_partition: TopicAndPartition) -> int:
        """Continue after damaged or too large records, as the reader's `skip`. Raises ConfigError."""
        return self._reader(topic_partition).skip()

    def retry(self, *partitions: TopicAndPartition) -> None:
        """Fetch now where errors stopped these partitions, or all if none is named. Raises ConfigError."""
        retry_all(self._engine.feeds, partitions)

    def _reader(self, topic_partition: TopicAndPartition) -> R:
        reader = self.readers.get(topic_partition)
        if reader is None:
            raise ConfigError(f"{topic_partition} is not read: consume_partition() it first")
        return reader

    # --- state

    @property
    def stopped(self) -> Stopped:
        """The partitions that cannot be read at present, and why: `skip`, `seek` or `retry` them."""
        return self._engine.stopped

    @property
    def health(self) -> Health:
        """STABLE, DEGRADED if a partition cannot be read, or CLOSED."""
        if self._box.is_closed:
            return Health.CLOSED
        return Health.DEGRADED if self.stopped else Health.STABLE

    def metrics(self) -> ReaderMetrics:
        """Return lag, queue sizes, and which partitions cannot be read."""
        return ReaderMetrics.of(self.health, self._engine)

    def _end_reading(self) -> None:
        """Hand out nothing more."""
        self._box.close()
        for reader in self.readers.values():
            reader._end_now()
        self._held.drop_all()


def _offset(offset: int) -> str:
    return "unknown" if offset == UNKNOWN_OFFSET else str(offset)

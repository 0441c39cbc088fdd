"""PartitionConsumer: partitions that the application chooses, read by one fetch engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from ottla.client.clock import MONOTONIC, Deadline
from ottla.consumer.partition.partition_config import PartitionConfig, checked_partition
from ottla.consumer.partition.partition_connections import PartitionConnections
from ottla.consumer.partition.partition_reader import PartitionReader
from ottla.consumer.reading.health import Health
from ottla.consumer.reading.held_chunks import HeldChunk, HeldChunks, ReadingPosition
from ottla.consumer.reading.reader_state import ReaderMetrics, Stopped, retry_all
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.inbox import Inbox
from ottla.model.closing import Closing
from ottla.model.errors import ConfigError, OttlaError
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.offset_spec import OffsetSpec
from ottla.model.property_table import merged
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import Deserializer, RowMaker


class PartitionConsumer(Closing):
    """Reads partitions that you name, without a group. Connects at the first need; ends with `close`.

        >>> from ottla import EmbeddedBroker, PartitionConsumer, Producer
        >>> with EmbeddedBroker() as broker:
        ...     with Producer(bootstrap_servers=broker.bootstrap) as producer:
        ...         _ = producer.send("orders", value=b"book")
        ...     with PartitionConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        ...         reader = consumer.consume_partition("orders", 0, "earliest")
        ...         for message in reader:
        ...             print(message.offset, message.value)
        ...             break
        0 b'book'

    `properties` and `settings` are Kafka's, with dots or underscores. Deserializers are functions of bytes;
    they run when a message's `key` or `value` is used, and never for None. An offset that is not in the log
    stops its partition with an error, unless auto.offset.reset is smallest or largest.
    """

    def __init__(
        self,
        properties: Mapping[str, object] | None = None,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **settings: object,
    ) -> None:
        self._config = PartitionConfig.from_properties(merged(properties, settings))
        self._deserializers = key_deserializer, value_deserializer
        self._servers = ", ".join(map(str, self._config.client.bootstrap))
        self._connections = connections = PartitionConnections(self._config)
        self._engine, self._lookup = connections.engine, connections.lookup
        self._inbox = Inbox()
        self._held = HeldChunks()
        self._lock = self._held.lock
        self._readers: dict[TopicAndPartition, PartitionReader] = {}
        self._forgotten = stop_if_forgotten(
            self,
            f"PartitionConsumer of {self._servers}",
            connections.close,
            is_running=lambda: connections.engine.is_running,
        )

    def __repr__(self) -> str:
        reads = ", ".join(f"{partition} at {reader.position}" for partition, reader in self.readers.items())
        state = "closed" if self._inbox.is_closed else reads or "nothing is read"
        return f"<PartitionConsumer of {self._servers}: {state}>"

    # --- partitions

    def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions. Raises KafkaError if there is no such topic."""
        return [partition.index for partition in self._connections.metadata.partitions(topic)]

    def consume_partition(
        self,
        topic: str,
        partition: int,
        offset: OffsetSpec,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> PartitionReader:
        """Read a partition from `offset` on: a number, "earliest", "latest", a datetime or a timedelta.

        Asks the leader only if `offset` is a time; else does not wait. The deserializers of the consumer are
        used unless others are given. Raises ConfigError if this consumer reads the partition already.
        """
        wanted = checked_partition(topic, partition)
        start = self._lookup.start(wanted, offset)
        key, value = self._deserializers
        maker = RowMaker(topic, partition, key_deserializer or key, value_deserializer or value)
        with self._lock:
            if self._inbox.is_closed:
                raise ConfigError(f"{wanted}: this consumer is closed; make another")
            if wanted in self._readers:
                raise ConfigError(f"{wanted} is being read already: seek() its reader, or close() it first")
            feed = self._engine.add(wanted, start, inbox=self._inbox)
            position = ReadingPosition(feed, start, maker)
            self._held.add(position)
            reader = self._readers[wanted] = PartitionReader(
                position, self._held, self._lookup, remove=self._remove, timeout_ms=self._config.timeout_ms
            )
        return reader

    @property
    def readers(self) -> dict[TopicAndPartition, PartitionReader]:
        """The readers that are not closed, by partition."""
        with self._lock:
            return dict(self._readers)

    def _remove(self, topic_partition: TopicAndPartition) -> None:
        self._engine.remove(topic_partition)
        self._held.remove(topic_partition)
        self._readers.pop(topic_partition, None)

    # --- reading all of them

    def __iter__(self) -> Iterator[MessageAndMetadata[Any, Any]]:
        """Iterate over the messages of all partitions, as `messages()`."""
        return self.messages()

    def messages(self, timeout: float | None = None) -> Iterator[MessageAndMetadata[Any, Any]]:
        """Iterate over the messages of all partitions, in order within each.

        Ends if none arrives within `timeout` seconds. With `timeout=None` consumer.timeout.ms counts if it is
        set, else it waits for ever. Raises the error that stopped a partition, once, after its last sound
        record; call `messages` again to continue with the others.
        """
        return chain.from_iterable(chunk.rows for chunk in self._chunks(timeout))

    def chunks(self, timeout: float | None = None) -> Iterator[FetchedDataChunk]:
        """Iterate over chunks of all partitions: `topic_partition`, `batch` (Arrow columns), `next_offset`.

        Ends and raises as `messages`.
        """
        return filter(None, (chunk.take_rest() for chunk in self._chunks(timeout)))

    def _chunks(self, timeout: float | None) -> Iterator[HeldChunk]:
        timeout_ms = self._config.wait_ms(timeout)
        while (chunk := self._next(timeout_ms)) is not None:
            yield chunk

    def _next(self, timeout_ms: float | None) -> HeldChunk | None:
        """The chunk to hand out next; None after `timeout_ms` and when the consumer is closed."""
        deadline = Deadline(MONOTONIC, timeout_ms)
        while not self._inbox.is_closed:
            with self._lock:
                chunk = self._held.next()
                if chunk is not None:
                    return chunk
                position = self._held.take(lambda: self._inbox.poll(0))
                if position is not None:
                    self._readers[position.topic_partition]._remove_if_done()
                    continue
            if not self._inbox.wait(deadline.left_ms()):
                return None
        return None

    # --- positions

    def seek(self, topic_partition: TopicAndPartition, offset: OffsetSpec) -> None:
        """Continue at `offset` in a partition that is read, as `PartitionReader.seek`. Raises ConfigError."""
        self._reader(topic_partition).seek(offset)

    def skip(self, topic_partition: TopicAndPartition) -> int:
        """Continue after damaged or too large records, as `PartitionReader.skip`. Raises ConfigError."""
        return self._reader(topic_partition).skip()

    def retry(self, *partitions: TopicAndPartition) -> None:
        """Fetch now where errors stopped these partitions, or all if none is named. Raises ConfigError."""
        retry_all(self._engine.feeds, partitions)

    def tail(self, count: int) -> None:
        """Continue at the last `count` offsets of each partition that is read. Asks the leaders."""
        readers = self.readers
        for topic_partition, offset in self._lookup.tail(readers, count).items():
            readers[topic_partition].seek(offset)

    def offsets_for_times(
        self, times: Mapping[TopicAndPartition, datetime | timedelta | str]
    ) -> dict[TopicAndPartition, int | None]:
        """Return the offset of the first record at that time or later; None if there is none.

        A time is a datetime with a time zone, ISO text, or a timedelta before now. Asks the leaders; raises
        NoTimestamps if a broker cannot look up times (before 0.10.1).
        """
        return self._lookup.for_times(times)

    def _reader(self, topic_partition: TopicAndPartition) -> PartitionReader:
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
        if self._inbox.is_closed:
            return Health.CLOSED
        return Health.DEGRADED if self.stopped else Health.STABLE

    def metrics(self) -> ReaderMetrics:
        """Return lag, queue sizes, and which partitions cannot be read."""
        return ReaderMetrics.of(self.health, self._engine)

    def check_brokers(self, timeout: float | None = None) -> None:
        """Ask a broker to describe the cluster, and return when one has.

        Raises BrokerUnreachable or AuthenticationFailed: at once if every address fails, at the latest after
        `timeout` seconds (default: request.timeout.ms).
        """
        self._connections.metadata.check_brokers(timeout)

    @property
    def network_error(self) -> OttlaError | None:
        """Why no broker gives a usable answer at present; None if one does, or none was asked."""
        return self._connections.metadata.errors.problem()

    # --- the end

    def close(self) -> None:
        """End all readers and threads now, from any thread. May be called twice."""
        self._inbox.close()
        for reader in self.readers.values():
            reader.close()
        self._held.drop_all()
        self._forgotten.detach()
        self._connections.close()

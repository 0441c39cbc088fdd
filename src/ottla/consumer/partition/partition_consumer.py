"""PartitionConsumer: partitions that the application chooses, read by one fetch engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from ottla.client.clock import MONOTONIC, Deadline
from ottla.consumer.partition.base_partition_consumer import BasePartitionConsumer
from ottla.consumer.partition.partition_config import PartitionConfig, checked_partition
from ottla.consumer.partition.partition_connections import PartitionConnections
from ottla.consumer.partition.partition_reader import PartitionReader
from ottla.consumer.reading.held_chunks import HeldChunk, ReadingPosition
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.inbox import Inbox
from ottla.model.closing import Closing
from ottla.model.errors import OttlaError
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.offset_spec import OffsetSpec
from ottla.model.property_table import merged
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import Deserializer


class PartitionConsumer(BasePartitionConsumer[PartitionReader], Closing):
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
        config = PartitionConfig.from_properties(merged(properties, settings))
        self._inbox = Inbox()
        super().__init__(config, key_deserializer, value_deserializer, self._inbox)
        self._connections = connections = PartitionConnections(config)
        self._engine, self._lookup = connections.engine, connections.lookup
        self._forgotten = stop_if_forgotten(
            self,
            f"PartitionConsumer of {self._servers}",
            connections.close,
            is_running=lambda: connections.engine.is_running,
        )

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
        return self._opened(
            wanted,
            start,
            self._maker(wanted, key_deserializer, value_deserializer),
            self._new_reader,
            self._connections.engine.add,
        )

    def _new_reader(self, position: ReadingPosition) -> PartitionReader:
        return PartitionReader(
            position, self._held, self._lookup, remove=self._remove, timeout_ms=self._config.timeout_ms
        )

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
            chunk = self._taken()
            if chunk is not None:
                return chunk
            if not self._inbox.wait(deadline.left_ms()):
                return None
        return None

    # --- positions

    def seek(self, topic_partition: TopicAndPartition, offset: OffsetSpec) -> None:
        """Continue at `offset` in a partition that is read, as `PartitionReader.seek`. Raises ConfigError."""
        self._reader(topic_partition).seek(offset)

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

    # --- state

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
        self._end_reading()
        self._forgotten.detach()
        self._connections.close()

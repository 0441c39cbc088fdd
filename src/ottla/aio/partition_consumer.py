"""PartitionConsumer and PartitionReader for asyncio: partitions that the application chooses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from ottla.aio.cluster import LoopMetadata
from ottla.aio.fetch_engine import LoopFetchEngine, LoopInbox
from ottla.aio.forgotten import close_if_forgotten
from ottla.aio.offset_lookup import LoopOffsetLookup
from ottla.aio.pool import LoopPool
from ottla.aio.waiting import LOOP_WAITS, ROWS_IN_A_ROW, LoopCondition, finishing
from ottla.client.clock import MONOTONIC, Deadline
from ottla.consumer.partition.base_partition_consumer import BasePartitionConsumer, BasePartitionReader
from ottla.consumer.partition.partition_config import PartitionConfig, checked_partition, wait_ms
from ottla.consumer.reading.held_chunks import HeldChunk, HeldChunks, ReadingPosition
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.fetch_errors import PartitionError
from ottla.model.closing import AsyncClosing
from ottla.model.errors import OttlaError
from ottla.model.offset_spec import OffsetSpec
from ottla.model.property_table import merged
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import Deserializer

Message = MessageAndMetadata[Any, Any]
NextChunk = Callable[[], Awaitable[HeldChunk | None]]


async def looked_up(chunk: HeldChunk) -> HeldChunk:
    """Return the chunk when the schemas of its values are known: a thread asks their registry."""
    if not chunk.is_looked_up:
        for lookup in chunk.lookups():
            await LOOP_WAITS.blocking(lookup)
        chunk.is_looked_up = True
    return chunk


async def rows_of(next_chunk: NextChunk, most: int = ROWS_IN_A_ROW) -> AsyncIterator[Message]:
    """Yield the rows of one chunk after the other.

    If an iterator is left early, the next one continues there.
    """
    while (chunk := await next_chunk()) is not None:
        for message in islice(chunk.rows, most):
            yield message
        await asyncio.sleep(0)


async def chunks_of(next_chunk: NextChunk) -> AsyncIterator[FetchedDataChunk]:
    """Yield one chunk after the other, without the rows that were handed out."""
    while (held := await next_chunk()) is not None:
        chunk = held.take_rest()
        if chunk is not None:
            yield chunk
            await asyncio.sleep(0)


class PartitionReader(BasePartitionReader, AsyncClosing):
    """Made by `PartitionConsumer.consume_partition`.

        >>> import asyncio
        >>> from ottla import aio
        >>> async def read():
        ...     async with aio.PartitionConsumer(bootstrap_servers="127.0.0.1:9092") as consumer:
        ...         reader = await consumer.consume_partition("orders", 0, "earliest")
        ...         await reader.tail(2)
        ...         async for chunk in reader.chunks():
        ...             return chunk.batch["value"].to_pylist(), reader.position
        >>> asyncio.run(read())
        ([b'coffee', b'cake'], 3)

    Only iterators, `seek`, `tail` and `close` have to be awaited.
    """

    def __init__(
        self,
        position: ReadingPosition,
        held: HeldChunks,
        lookup: LoopOffsetLookup,
        changed: LoopCondition,
        *,
        remove: Callable[[TopicAndPartition], None],
        timeout_ms: float | None,
    ) -> None:
        super().__init__(position, held, remove=remove, timeout_ms=timeout_ms)
        self._lookup = lookup
        self._changed = changed

    def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over messages, as `messages()`."""
        return self.messages()

    def messages(self, timeout: float | None = None) -> AsyncIterator[Message]:
        """Iterate over messages in order, until none arrives within `timeout` seconds or the reader ends.

        With `timeout=None` consumer.timeout.ms counts if it is set, else it waits for ever. Raises the error
        that stopped the partition, after its last sound record, each time until it is read again.
        """
        return rows_of(self._waiting(timeout))

    def chunks(self, timeout: float | None = None) -> AsyncIterator[FetchedDataChunk]:
        """Iterate over chunks: `topic_partition`, `batch`, and `next_offset`, the offset after the chunk.

        Ends and raises as `messages`.
        """
        return chunks_of(self._waiting(timeout))

    async def errors(self, timeout: float | None = None) -> AsyncIterator[PartitionError]:
        """Iterate over error reports that were not taken yet: what went wrong, and what was done about it.

        Ends if none comes within `timeout` seconds, as `messages`, and when the reader is closed. With 0 it
        does not wait.
        """
        timeout_ms = wait_ms(timeout, self._timeout_ms)
        channel = self._feed.errors
        seconds = None if timeout_ms is None else timeout_ms / 1000
        while await self._changed.until(channel.is_ready, seconds):
            report = channel.poll(0)
            if report is None:
                return
            yield report

    def _waiting(self, timeout: float | None) -> NextChunk:
        timeout_ms = wait_ms(timeout, self._timeout_ms)

        async def next_chunk() -> HeldChunk | None:
            deadline = Deadline(MONOTONIC, timeout_ms)
            while True:
                chunk = self._taken()
                if chunk is not None:
                    return await looked_up(chunk)
                if self._has_ended:
                    return None
                left_ms = deadline.left_ms()
                seconds = None if left_ms is None else left_ms / 1000
                if not await self._changed.until(self._feed.is_ready, seconds):
                    return None

        return next_chunk

    async def seek(self, offset: OffsetSpec) -> None:
        """Continue at `offset`: a number, "earliest", "latest", a datetime with a time zone or a timedelta.

        Forgets the error that stopped the partition. Asks the leader only if `offset` is a time; raises
        OttlaError if the leader does not answer within request.timeout.ms.
        """
        start = await self._lookup.start(self.topic_partition, offset)
        self._position.seek(start)

    async def tail(self, count: int) -> None:
        """Continue at the last `count` records, by offsets. Asks the leader where the log ends."""
        offsets = await self._lookup.tail([self.topic_partition], count)
        await self.seek(offsets[self.topic_partition])

    async def close(self) -> None:
        """End now; what was not read is dropped. Errors stay until they are taken."""
        self._end_now()


class PartitionConsumer(BasePartitionConsumer[PartitionReader], AsyncClosing):
    """Reads partitions that you name, without a group. Made and used in a running event loop.

        >>> import asyncio
        >>> from ottla import aio
        >>> async def read():
        ...     async with aio.PartitionConsumer(bootstrap_servers="127.0.0.1:9092") as consumer:
        ...         reader = await consumer.consume_partition("orders", 0, "earliest")
        ...         async for message in reader:
        ...             return message.value
        >>> asyncio.run(read())
        b'tea'

    Arguments and settings are those of `ottla.PartitionConsumer`.
    """

    _engine: LoopFetchEngine

    def __init__(
        self,
        properties: Mapping[str, object] | None = None,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **settings: object,
    ) -> None:
        config = PartitionConfig.from_properties(merged(properties, settings))
        self._inbox = LoopInbox()
        super().__init__(config, key_deserializer, value_deserializer, self._inbox)
        self._metadata = LoopMetadata(config.client)
        self._pool = LoopPool(config.client, self._metadata)
        self._lookup = LoopOffsetLookup(
            config.client, self._metadata, self._pool, int(config.fetch.isolation_level)
        )
        self._engine = engine = LoopFetchEngine(config.client, config.fetch, self._metadata)
        self._stop = partial(_stop, engine, self._pool, self._metadata)
        self._forgotten = close_if_forgotten(
            self,
            f"aio.PartitionConsumer of {self._servers}",
            self._stop,
            is_running=lambda: engine.is_running,
        )

    # --- partitions

    async def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions. Raises KafkaError if there is no such topic."""
        return [partition.index for partition in await self._metadata.partitions(topic)]

    async def consume_partition(
        self,
        topic: str,
        partition: int,
        offset: OffsetSpec,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> PartitionReader:
        """Read a partition from `offset` on: a number, "earliest", "latest", a datetime or a timedelta.

        Asks the leader only if `offset` is a time. Raises ConfigError if this consumer reads the partition
        already.
        """
        wanted = checked_partition(topic, partition)
        start = await self._lookup.start(wanted, offset)
        maker = self._maker(wanted, key_deserializer, value_deserializer)
        return self._opened(wanted, start, maker, self._new_reader, self._engine.add)

    def _new_reader(self, position: ReadingPosition) -> PartitionReader:
        return PartitionReader(
            position,
            self._held,
            self._lookup,
            self._inbox.loop_changed,
            remove=self._remove,
            timeout_ms=self._config.timeout_ms,
        )

    # --- reading all of them

    def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over the messages of all partitions, as `messages()`."""
        return self.messages()

    def messages(self, timeout: float | None = None) -> AsyncIterator[Message]:
        """Iterate over the messages of all partitions, in order within each.

        Ends if none arrives within `timeout` seconds. With `timeout=None` consumer.timeout.ms counts if it is
        set, else it waits for ever. Raises the error that stopped a partition, once, after its last sound
        record; call `messages` again to continue with the others.
        """
        return rows_of(self._waiting(timeout))

    def chunks(self, timeout: float | None = None) -> AsyncIterator[FetchedDataChunk]:
        """Iterate over chunks of all partitions: `topic_partition`, `batch` (Arrow columns), `next_offset`.

        Ends and raises as `messages`.
        """
        return chunks_of(self._waiting(timeout))

    def _waiting(self, timeout: float | None) -> NextChunk:
        timeout_ms = self._config.wait_ms(timeout)

        async def next_chunk() -> HeldChunk | None:
            deadline = Deadline(MONOTONIC, timeout_ms)
            while not self._inbox.is_closed:
                chunk = self._taken()
                if chunk is not None:
                    return await looked_up(chunk)
                if not await self._inbox.until_news(deadline.left_ms()):
                    return None
            return None

        return next_chunk

    # --- positions

    async def seek(self, topic_partition: TopicAndPartition, offset: OffsetSpec) -> None:
        """Continue at `offset` in a partition that is read, as `PartitionReader.seek`. Raises ConfigError."""
        await self._reader(topic_partition).seek(offset)

    async def tail(self, count: int) -> None:
        """Continue at the last `count` offsets of each partition that is read. Asks the leaders."""
        readers = self.readers
        for topic_partition, offset in (await self._lookup.tail(readers, count)).items():
            await readers[topic_partition].seek(offset)

    async def offsets_for_times(
        self, times: Mapping[TopicAndPartition, datetime | timedelta | str]
    ) -> dict[TopicAndPartition, int | None]:
        """Return the offset of the first record at that time or later; None if there is none.

        A time is a datetime with a time zone, ISO text, or a timedelta before now. Asks the leaders; raises
        NoTimestamps if a broker cannot look up times (before 0.10.1).
        """
        return await self._lookup.for_times(times)

    # --- state

    async def check_brokers(self, timeout: float | None = None) -> None:
        """Ask a broker to describe the cluster, and return when one has.

        Raises BrokerUnreachable or AuthenticationFailed: at once if every address fails, at the latest after
        `timeout` seconds (default: request.timeout.ms).
        """
        await self._metadata.check_brokers(timeout)

    @property
    def network_error(self) -> OttlaError | None:
        """Why no broker gives a usable answer at present; None if one does, or none was asked."""
        return self._metadata.errors.problem()

    # --- the end

    async def close(self) -> None:
        """End all readers and tasks now. May be called twice."""
        self._forgotten.detach()
        self._end_reading()
        await self._stop()


async def _stop(engine: LoopFetchEngine, pool: LoopPool, metadata: LoopMetadata) -> None:
    """End all tasks and connections."""
    async with finishing() as finish:
        finish(engine.close())
        finish(pool.close())
        finish(metadata.close())

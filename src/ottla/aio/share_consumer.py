"""ShareConsumer for asyncio: reads topics as a member of a share group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial

from ottla.aio.cluster import LoopMetadata
from ottla.aio.forgotten import close_if_forgotten
from ottla.aio.partition_consumer import looked_up, rows_of
from ottla.aio.pool import LoopPool
from ottla.aio.waiting import LoopCondition, Tasks, finishing, uncancelled
from ottla.consumer.reading.held_chunks import HeldChunk
from ottla.consumer.share.base_share_consumer import (
    MAX_WAIT_S,
    BaseShareConsumer,
    Message,
    Topics,
    share_config,
)
from ottla.consumer.share.share_config import ShareConfig
from ottla.consumer.share.share_fetcher import ShareFetcher, deadline_after
from ottla.consumer.share.share_membership import ShareMembership
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.model.closing import AsyncClosing
from ottla.records.rows import Deserializer


class LoopHeartbeats(ShareMembership):
    """The task that sends heartbeats, from `start` to `stop`."""

    def __init__(self, config: ShareConfig, metadata: LoopMetadata, topics: tuple[str, ...]) -> None:
        client = config.client
        self._loop_changed = LoopCondition()
        self._pool = LoopPool(client, metadata)
        super().__init__(client, self._pool, config.group_id, topics, config.rack, self._loop_changed)
        self._tasks = Tasks()
        self.is_started = False

    def start(self) -> None:
        """Start the task, if it is not started yet."""
        if not self.is_started:
            self.is_started = True
            self._tasks.start(self._run(), f"ottla-share-{self._member.group_id}")

    async def wait_for_assignment(self, timeout_s: float) -> None:
        """Wait until partitions are assigned or an error has come, at most `timeout_s`."""
        await self._loop_changed.until(self.has_work, timeout_s)

    async def _run(self) -> None:
        while True:
            pause_ms = await self.beat()
            await self._loop_changed.until(lambda: self._is_due, pause_ms / 1000)
            self._is_due = False

    async def stop(self) -> None:
        """End the task, and leave the group. May be called twice."""
        self._is_stopping = True
        await self._tasks.cancel()
        # The answer to a heartbeat may be due on this connection: a new one is needed to leave.
        await self._pool.close()
        await self.leave(self._pool)
        self._member.epoch = 0
        await self._pool.close()


class ShareConsumer(BaseShareConsumer, AsyncClosing):
    """Reads topics as a member of a share group. Joins with the first `poll`, leaves with `close`.

        >>> import asyncio
        >>> from ottla import aio
        >>> async def serve():
        ...     async with aio.ShareConsumer(
        ...         "orders",
        ...         group_id="kitchen",
        ...         bootstrap_servers="127.0.0.1:9092",
        ...         share_acknowledgement_mode="explicit",
        ...     ) as consumer:
        ...         async for message in consumer.messages(timeout=0.1):
        ...             consumer.accept(message)
        >>> asyncio.run(serve())

    Arguments and settings are those of `ottla.ShareConsumer`. Made and used in a running event loop, by one
    task at a time. A poll that is cancelled loses nothing: the next one returns what it would have returned.
    """

    def __init__(
        self,
        topics: Topics,
        properties: Mapping[str, object] | None = None,
        *,
        group_id: str | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **settings: object,
    ) -> None:
        config = share_config(properties, group_id, settings)
        super().__init__(config, topics, (key_deserializer, value_deserializer))
        self._metadata = self._known = LoopMetadata(config.client)
        self._heartbeats = self._membership = heartbeats = LoopHeartbeats(
            config, self._metadata, self._topics
        )
        pool = LoopPool(config.client, self._metadata)
        self._fetcher = fetcher = ShareFetcher(config, self._metadata, pool, heartbeats.member_id)
        self._tasks = Tasks()
        self._fetching: asyncio.Task[None] | None = None
        self._stop = partial(_stop, fetcher, heartbeats, self._metadata)
        self._forgotten = close_if_forgotten(
            self,
            f"aio.ShareConsumer of group {config.group_id!r}",
            self._stop,
            is_running=lambda: heartbeats.is_started,
        )

    # --- reading

    async def poll(self, timeout: float | None = None) -> FetchedDataChunk | None:
        """Return the next records of a partition, or None if none arrive within `timeout` seconds.

        With `timeout=None` wait for ever. The column `delivery_count` says how often each record was
        delivered. Raises the error that ended the membership; and ConfigError if the application has not
        answered for all records of the last poll (mode "explicit").
        """
        chunk = await self._next(timeout)
        return chunk.take_rest() if chunk is not None else None

    async def chunks(self, timeout: float | None = None) -> AsyncIterator[FetchedDataChunk]:
        """Iterate over chunks as `poll` returns them, until none arrives within `timeout` seconds."""
        while (chunk := await self.poll(timeout)) is not None:
            yield chunk

    def messages(self, timeout: float | None = None) -> AsyncIterator[Message]:
        """Iterate over messages until none arrives within `timeout` seconds; None waits for ever.

        A message that is handed out counts as accepted when the next records are fetched (mode "implicit").
        Answer for a message before the next one (mode "explicit").
        """
        return rows_of(partial(self._next, timeout))

    def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over messages for ever."""
        return self.messages()

    async def _next(self, timeout: float | None) -> HeldChunk | None:
        self._check_open()
        chunk = self._first()
        if chunk is not None:
            return await looked_up(chunk)
        if self._fetching is None:  # otherwise the answers were sent before it
            self._answer_for_last_poll()
            self._log_refused(await uncancelled(self._fetcher.acknowledge()))
        self._heartbeats.start()
        deadline = deadline_after(timeout)
        while True:
            await self._fetched(deadline.capped_ms(self._config.fetch_max_wait_ms))
            if self._queue:
                return await looked_up(self._queue[0])
            if deadline.passed:
                return None

    async def _fetched(self, wait_ms: float) -> None:
        """Wait for a fetch.

        If this is cancelled the fetch continues, since its records are locked for this member.
        """
        if self._fetching is None:
            self._fetching = self._tasks.start(self._fetch(wait_ms), "ottla-share-fetch")
        await asyncio.wait([self._fetching])
        fetching, self._fetching = self._fetching, None
        fetching.result()

    async def _fetch(self, wait_ms: float) -> None:
        assigned = self._heartbeats.assigned()
        if not assigned:
            await self._heartbeats.wait_for_assignment(min(wait_ms / 1000, MAX_WAIT_S))
            assigned = self._heartbeats.assigned()
        if assigned:
            self._enqueue(await self._fetcher.fetch(assigned, self._topics, wait_ms))

    # --- answers

    async def commit(self) -> None:
        """Send all answers and wait until they are stored; with mode "implicit", accept all of the last poll.

        Raises KafkaError or ConnectionLost for the first partition that was refused: others get its records.
        If it is cancelled, the answers are sent all the same.
        """
        self._check_open()
        await uncancelled(self._committed())

    async def _committed(self) -> None:
        if self._fetching is not None:  # of a poll that was cancelled
            await self._fetched(0)
        self._answer_for_all()
        for error in (await self._fetcher.acknowledge()).values():
            raise error

    # --- the end

    async def check_brokers(self, timeout: float | None = None) -> None:
        """Ask a broker to describe the cluster, and return when one has. Raises BrokerUnreachable."""
        self._check_open()
        await self._metadata.check_brokers(timeout)

    async def close(self) -> None:
        """Send the answers, release what is left, leave the group. May be called twice.

        With mode "implicit", everything that was handed out is accepted. If it is cancelled, the rest is done
        before the cancellation takes effect.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._forgotten.detach()
        async with finishing() as finish:
            finish(self._last_answers())
            finish(self._stop())

    async def _last_answers(self) -> None:
        await self._tasks.cancel()
        self._answer_for_all()


async def _stop(fetcher: ShareFetcher, heartbeats: LoopHeartbeats, metadata: LoopMetadata) -> None:
    """Send what was answered, leave the group, end all tasks and connections."""
    async with finishing() as finish:
        finish(fetcher.close())
        finish(heartbeats.stop())
        finish(metadata.close())

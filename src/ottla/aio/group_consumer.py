"""GroupConsumer for asyncio: reads topics as a member of a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from ottla.aio.cluster import LoopMetadata
from ottla.aio.commits import LoopAutoCommit, LoopCommits
from ottla.aio.fetch_engine import LoopFetchEngine, LoopInbox
from ottla.aio.forgotten import close_if_forgotten
from ottla.aio.membership import LoopMembership
from ottla.aio.offset_lookup import LoopOffsetLookup
from ottla.aio.partition_consumer import Message, looked_up, rows_of
from ottla.aio.pool import LoopPool
from ottla.aio.rebalancing import LoopRebalancing, RebalanceListener
from ottla.aio.waiting import ROWS_IN_A_ROW, finishing, uncancelled
from ottla.client.clock import MONOTONIC, Deadline
from ottla.consumer.coordinated.base_group_consumer import BaseGroupConsumer
from ottla.consumer.coordinated.commits import OnCommit, log_failure
from ottla.consumer.coordinated.group_consumer_config import GroupConsumerConfig
from ottla.consumer.coordinated.member_state import MemberState
from ottla.consumer.coordinated.partitions import AssignedPartitions
from ottla.consumer.coordinated.topic_selection import TopicSelection, WantedTopics
from ottla.consumer.reading.group_argument import group_settings
from ottla.consumer.reading.held_chunks import HeldChunk
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.commit_positions import Committable
from ottla.model.closing import AsyncClosing
from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.errors import ConfigError
from ottla.model.offset_spec import OffsetSpec
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.rows import Deserializer

IDLE_MS = 10_000.0
"""The longest wait for records of a consumer without auto commit: whatever else it has to do wakes it."""


class GroupConsumer(BaseGroupConsumer, AsyncClosing):
    """Reads topics as a member of a group. Joins with the first `poll` or iteration, leaves with `close`.

        >>> import asyncio
        >>> from ottla import aio
        >>> async def bill():
        ...     async with aio.GroupConsumer(
        ...         "orders",
        ...         group_id="bills",
        ...         bootstrap_servers="127.0.0.1:9092",
        ...         auto_offset_reset="earliest",
        ...     ) as consumer:
        ...         async for message in consumer:
        ...             await consumer.commit(message)
        ...             return message.value
        >>> asyncio.run(bill())
        b'tea'

    Arguments and settings are those of `ottla.GroupConsumer`; the methods of a `listener` are coroutines.
    Made and used in a running event loop, by one task at a time. Heartbeats are sent by tasks of its own.
    """

    _membership: LoopMembership
    _engine: LoopFetchEngine

    def __init__(
        self,
        topics: WantedTopics,
        properties: Mapping[str, object] | None = None,
        *,
        group_id: str | None = None,
        listener: RebalanceListener | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **settings: object,
    ) -> None:
        config = GroupConsumerConfig.from_properties(group_settings(properties, group_id, settings))
        client = config.client
        self._metadata = LoopMetadata(client)
        super().__init__(config, TopicSelection(topics), self._metadata.errors)
        if config.auto_commit_interval_ms is None:
            self._max_wait_ms = min(IDLE_MS, config.member.max_poll_interval_ms / 3)
        self._pool = LoopPool(client, self._metadata)
        self._lookup = LoopOffsetLookup(client, self._metadata, self._pool, int(config.fetch.isolation_level))
        self._inbox = LoopInbox()
        engine = LoopFetchEngine(client, config.fetch, self._metadata, name=self._group_id)
        self._engine = engine
        self._partitions = AssignedPartitions(engine, self._inbox, key_deserializer, value_deserializer)
        member = LoopMembership(client, config.member, self._selection, self._metadata, self._partitions.wake)
        self._membership = member
        self._commits = LoopCommits(
            client, self._metadata, self._group_id, member, self._partitions.is_assigned
        )
        auto_commit = LoopAutoCommit(
            self._group_id, self._commits, self._partitions.committable, config.auto_commit_interval_ms
        )
        self._auto_commit = auto_commit
        self._rebalancing = LoopRebalancing(
            self._group_id,
            listener or RebalanceListener(),
            member,
            self._partitions,
            self._commits,
            auto_commit,
        )
        # Nothing here may refer to the listener or to callbacks: these often refer to the consumer.
        self._stop = partial(_stop, self._commits.stop, member, engine, self._pool, self._metadata)
        self._stopped_by(
            close_if_forgotten(
                self,
                f"aio.GroupConsumer of group {self._group_id!r}",
                self._stop,
                is_running=lambda: member.is_started,
            )
        )

    @property
    def _is_started(self) -> bool:
        return self._membership.is_started

    # --- reading

    async def poll(self, timeout: float | None = None) -> FetchedDataChunk | None:
        """Return the next chunk of any assigned partition, or None if none arrives within `timeout` seconds.

        With `timeout=None` wait for ever. Runs the listener, and commits if auto commit is on. Raises the
        error that stopped a partition, once (see `stopped`); the error that ended the membership, each time
        until `retry`; and errors of the listener.
        """
        chunk = await self._next(timeout)
        return chunk.take_rest() if chunk is not None else None

    async def _next(self, timeout: float | None) -> HeldChunk | None:
        deadline = Deadline(MONOTONIC, None if timeout is None else timeout * 1000)
        while True:
            is_settled = await self._attend(deadline)
            chunk = self._partitions.hold(0)
            if chunk is not None:
                return await looked_up(chunk)
            if deadline.passed:
                return None
            await self._inbox.until_news(deadline.capped_ms(self._max_wait_ms) if is_settled else 0)

    async def chunks(self, timeout: float | None = None) -> AsyncIterator[FetchedDataChunk]:
        """Iterate over chunks as `poll` returns them, until none arrives within `timeout` seconds."""
        while (chunk := await self.poll(timeout)) is not None:
            yield chunk
            await asyncio.sleep(0)

    def messages(self, timeout: float | None = None) -> AsyncIterator[Message]:
        """Iterate over messages until none arrives within `timeout` seconds; None waits for ever.

        A later call continues after the last message. After every max.poll.records messages, and at most
        every 512, it does the work of `poll`: listener, auto commit.
        """
        return rows_of(partial(self._next, timeout), min(self._max_poll_records, ROWS_IN_A_ROW))

    def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over messages for ever."""
        return self.messages()

    async def _attend(self, deadline: Deadline) -> bool:
        """Do what is due before records are handed out.

        Returns False if the committed offsets of new partitions are not known yet.
        """
        self._check_open()
        self._membership.start()
        await self._commits.run_callbacks()
        try:
            change = self._membership.polled()
        except Exception:
            await self._rebalancing.lose(self._partitions.assigned)
            raise
        self._membership.raise_refusal()
        wait_ms = deadline.capped_ms(self._max_wait_ms)
        is_settled = change is None or await self._rebalancing.carry_out(change, wait_ms)
        self._auto_commit.commit_if_due()
        return is_settled

    # --- commits

    async def commit(self, offsets: Committable | None = None) -> None:
        """Store positions and wait for the answer.

        `offsets` is a message or a chunk, which counts as done; a mapping from partitions to next offsets; or
        None for everything that was handed out. Raises PartitionsLost if a partition is not assigned (any
        more), OffsetCommitFailed, and what connections raise if no coordinator answers in time. If the caller
        is cancelled, the commit is finished all the same.
        """
        positions = self._positions(offsets)
        if positions:
            await asyncio.shield(self._commits.submit(positions))
        await self._commits.run_callbacks()

    def commit_async(self, offsets: Committable | None = None, on_commit: OnCommit | None = None) -> None:
        """Store positions without waiting.

        `on_commit(offsets, error)` is called by a later `poll`, `commit` or `close`; it may be a coroutine
        function. Without it a failure is logged.
        """
        positions = self._positions(offsets)
        if positions:
            commit = self._commits.submit(positions, on_commit or partial(log_failure, self._group_id))
            wake = self._partitions.wake  # a `poll` that waits runs the callback
            commit.add_done_callback(lambda _: wake())

    async def committed(
        self, partitions: Iterable[TopicAndPartition] | None = None
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return the group's stored positions, of the assigned partitions by default, where there are any."""
        return await self._commits.stored(self.assignment if partitions is None else partitions)

    # --- the group

    async def check_brokers(self, timeout: float | None = None) -> None:
        """Ask a broker to describe the cluster, and return when one has. Raises BrokerUnreachable."""
        self._check_open()
        await self._metadata.check_brokers(timeout)

    def subscribe(self, topics: WantedTopics) -> None:
        """Read these topics instead of the present ones; the partitions change inside a later `poll`."""
        self._check_open()
        self._selection = TopicSelection(topics)
        self._membership.subscribe(self._selection)

    # --- positions

    async def seek(self, topic_partition: TopicAndPartition, offset: OffsetSpec) -> None:
        """Continue at `offset`: a number, "earliest", "latest", a datetime with a time zone or a timedelta.

        Asks the leader only if `offset` is a time. Raises ConfigError if the offset makes no sense or the
        partition is not assigned.
        """
        self._check_open()
        self._partitions.check_assigned(topic_partition)
        start = await self._lookup.start(topic_partition, offset)
        self._partitions.seek(topic_partition, start)

    async def retry(self, *partitions: TopicAndPartition) -> None:
        """Fetch now where errors stopped these partitions, or all if none is named.

        Without names, a member whose membership an error has ended joins again too.
        """
        self._check_open()
        self._partitions.retry(partitions)
        if not partitions and self._membership.state is MemberState.FAILED:
            await self._rebalancing.lose(self._partitions.assigned)
            self._membership.retry()

    async def tail(self, count: int) -> None:
        """Continue at the last `count` offsets of each assigned partition.

        Raises ConfigError if no partition is assigned: call it after the first `poll`, or in `on_assigned`.
        """
        self._check_open()
        if not self.assignment:
            raise ConfigError("tail(): no partition is assigned yet; poll first, or call it in on_assigned")
        for topic_partition, offset in (await self._lookup.tail(self.assignment, count)).items():
            self._partitions.seek(topic_partition, offset)

    async def offsets_for_times(
        self, times: Mapping[TopicAndPartition, datetime | timedelta | str]
    ) -> dict[TopicAndPartition, int | None]:
        """Return the offset of the first record at that time or later; None if there is none."""
        self._check_open()
        return await self._lookup.for_times(times)

    # --- the end

    async def close(self) -> None:
        """Commit if auto commit is on, call the listener, leave the group. May be called twice.

        If it is cancelled, the rest is done before the cancellation takes effect.
        """
        if not self._is_closed:
            self._forgotten.detach()
            await uncancelled(self._close())

    async def _close(self) -> None:
        async with finishing() as finish:
            if self._partitions.assigned:
                finish(self._rebalancing.revoke(self._partitions.assigned))
            finish(self._close_commits())
            finish(self._stop())

    async def _close_commits(self) -> None:
        self._mark_closed()
        self._inbox.close()
        await self._commits.close()


async def _stop(
    stop_commits: Callable[[], Coroutine[Any, Any, None]],
    member: LoopMembership,
    engine: LoopFetchEngine,
    pool: LoopPool,
    metadata: LoopMetadata,
) -> None:
    """Leave the group, end all tasks and connections, without a commit."""
    async with finishing() as finish:
        finish(stop_commits())
        finish(member.stop())
        finish(engine.close())
        finish(pool.close())
        finish(metadata.close())

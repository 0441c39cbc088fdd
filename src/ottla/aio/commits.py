"""Commits of a group member on an event loop: in order, and repeated through rebalances."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from ottla.aio.cluster import LoopMetadata
from ottla.aio.pool import LoopPool
from ottla.aio.waiting import Tasks
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.consumer.coordinated.commits import (
    FLUSH_S,
    CommitRules,
    CommittedOffsets,
    CommitTimes,
    CommittingMember,
    OnCommit,
)
from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.errors import OffsetCommitFailed, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.coordinator_messages import Membership
from ottla.offsets.offset_calls import OffsetCalls

log = logging.getLogger(__name__)


class LoopCommits:
    """Runs one commit after the other. If a caller is cancelled, its commit is still finished."""

    def __init__(
        self,
        config: ClientConfig,
        metadata: LoopMetadata,
        group_id: str,
        member: CommittingMember,
        is_assigned: Callable[[TopicAndPartition], bool],
    ) -> None:
        self._config = config
        self.is_assigned = is_assigned
        self._rules = CommitRules(group_id, member, is_assigned)
        self._pool = LoopPool(config, metadata)
        self._group_id = group_id
        self._calls = OffsetCalls(config, metadata, self._pool, MONOTONIC)
        self._turn = asyncio.Lock()
        self._tasks = Tasks()
        self.stop = partial(_stop, self._tasks, self._pool)
        """Ends tasks and connections; has no reference to callbacks."""
        self._last: asyncio.Task[None] | None = None
        self._finished: deque[tuple[OnCommit, CommittedOffsets, OttlaError | None]] = deque()

    def submit(self, offsets: CommittedOffsets, on_commit: OnCommit | None = None) -> asyncio.Task[None]:
        """Commit after everything that was submitted before."""
        self._last = self._tasks.start(self._perform(dict(offsets), on_commit), "ottla-commit")
        return self._last

    def fetch(self, partitions: Iterable[TopicAndPartition]) -> asyncio.Task[CommittedOffsets]:
        """Look up stored positions after everything that was submitted before."""
        return self._tasks.start(self._fetch(partitions), "ottla-committed")

    async def _fetch(self, partitions: Iterable[TopicAndPartition]) -> CommittedOffsets:
        async with self._turn:
            return await self._calls.fetch(self._group_id, partitions)

    async def stored(
        self, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Look up stored positions now. Raises OffsetFetchFailed."""
        return await self._calls.fetch(self._group_id, partitions)

    async def run_callbacks(self) -> None:
        """Call the callbacks of finished commits, which may be coroutine functions."""
        while self._finished:
            on_commit, offsets, error = self._finished.popleft()
            result: object = on_commit(offsets, error)
            if inspect.isawaitable(result):
                await result

    async def flush(self) -> None:
        """Wait up to FLUSH_S for submitted commits, and never twice for the same one."""
        last, self._last = self._last, None
        if last is not None:
            await asyncio.wait([last], timeout=FLUSH_S)

    async def close(self) -> None:
        """Flush, cancel what is left, run the last callbacks."""
        try:
            await self.flush()
        finally:
            await self.stop()
        await self.run_callbacks()

    async def _perform(self, offsets: CommittedOffsets, on_commit: OnCommit | None) -> None:
        failure: OttlaError | None = None
        async with self._turn:
            try:
                await self._commit(offsets)
            except OttlaError as error:
                failure = error
        if on_commit is not None:
            self._finished.append((on_commit, offsets, failure))
        if failure is not None:
            raise failure

    async def _commit(self, offsets: CommittedOffsets) -> None:
        deadline = Deadline(MONOTONIC, self._config.request_timeout_ms)
        while True:
            membership = self._rules.identity(offsets)
            try:
                await self._calls.commit(self._group_id, offsets, partial(_same, membership))
            except OffsetCommitFailed as error:
                offsets = self._rules.left(error, offsets, membership, deadline)
                await asyncio.sleep(self._config.retry_backoff_ms / 1000)
            else:
                return


async def _stop(tasks: Tasks, pool: LoopPool) -> None:
    await tasks.cancel()
    await pool.close()


def _same(membership: Membership) -> Membership:
    return membership


class LoopAutoCommit(CommitTimes):
    """Commits the positions every `interval_ms` and before partitions are given up; never if that is None."""

    _commits: LoopCommits

    def __init__(
        self,
        group_id: str,
        commits: LoopCommits,
        positions: Callable[[], CommittedOffsets],
        interval_ms: float | None,
    ) -> None:
        super().__init__(group_id, commits, positions, interval_ms)

    async def commit_now(self) -> None:
        """Commit before partitions are given up. A failure is logged: the group must not wait."""
        if not self.is_on:
            return
        try:
            offsets = self.changed()
            if offsets:
                await asyncio.shield(self._commits.submit(offsets))
            await self._commits.run_callbacks()
        except OttlaError as error:
            log.warning("group %r: the last commit: %s", self._group_id, error)

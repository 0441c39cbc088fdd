"""Commits of a group member on an event loop: in order, and repeated through rebalances."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping

from ottla.aio.cluster import LoopMetadata
from ottla.aio.connection import LoopConnection
from ottla.aio.pool import LoopPool
from ottla.aio.waiting import Attempts, Tasks
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.reactions import Action, Call, action_about, action_for
from ottla.client.retry import Backoff
from ottla.consumer.coordinated.commits import (
    FLUSH_S,
    CommitRules,
    CommittedOffsets,
    CommitTimes,
    CommittingMember,
    OnCommit,
)
from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.errors import OffsetCommitFailed, OffsetFetchFailed, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.coordinator_messages import (
    NAMES_UNTIL,
    Membership,
    commit_codes,
    commit_request,
    fetch_request,
    fetched_offsets,
)
from ottla.wire.api.offset_fetch import OffsetFetchRequest

log = logging.getLogger(__name__)

Codes = Mapping[TopicAndPartition, int]
Ask = Callable[[LoopConnection, Deadline], Awaitable[Codes]]

_TRIED_AGAIN = {Action.RETRY, Action.REFRESH, Action.FIND_COORDINATOR}


class LoopOffsets:
    """Positions of a group in Kafka, through its coordinator."""

    def __init__(self, config: ClientConfig, pool: LoopPool, group_id: str) -> None:
        self._config = config
        self._pool = pool
        self._group_id = group_id
        self._chance = random.Random()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    async def fetch(
        self, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return the stored positions; partitions without one are missing. Raises OffsetFetchFailed."""
        requested = set(partitions)
        positions: dict[TopicAndPartition, OffsetAndMetadata] = {}
        if not requested:
            return positions

        async def ask(connection: LoopConnection, deadline: Deadline) -> Codes:
            version = connection.version_for(OffsetFetchRequest.API, at_most=NAMES_UNTIL)
            request = fetch_request(self._group_id, requested, version)
            response = await connection.call(request, version=version, timeout_ms=deadline.left_ms())
            offsets, codes, _ = fetched_offsets(response, requested, version)
            positions.update(offsets)
            return codes

        failures = await self._settled(Call.OFFSET_FETCH, ask)
        if failures:
            raise OffsetFetchFailed(self._group_id, failures)
        return positions

    async def commit(self, offsets: CommittedOffsets, membership: Membership) -> None:
        """Store positions. Raises OffsetCommitFailed if some were refused; the others are stored."""
        left = dict(offsets)

        async def ask(connection: LoopConnection, deadline: Deadline) -> Codes:
            request = commit_request(self._group_id, left, membership)
            response = await connection.call(request, at_most=NAMES_UNTIL, timeout_ms=deadline.left_ms())
            codes = commit_codes(response, left)
            for topic_partition, code in codes.items():
                if not code:
                    del left[topic_partition]
            return codes

        failures = await self._settled(Call.OFFSET_COMMIT, ask)
        if failures:
            raise OffsetCommitFailed(self._group_id, failures)

    async def _settled(
        self, call: Call, ask: Callable[[LoopConnection, Deadline], Awaitable[Codes]]
    ) -> Codes:
        """Call `ask` until no error is left that a retry may cure; return the error codes that remain."""
        deadline = Deadline(MONOTONIC, self._config.request_timeout_ms)
        codes: Codes = {}
        failure: OttlaError | None = None
        tries = Attempts(self._backoff, deadline, self._chance)
        while await tries.next():
            failure = None
            try:
                connection = await self._pool.to_coordinator(self._group_id, deadline)
                codes = await ask(connection, deadline.for_try(self._config.request_timeout_ms))
                actions = {action_for(code, call) for code in codes.values()}
            except OttlaError as error:
                if action_about(error, call) is Action.FAIL:
                    raise
                failure, actions = error, {Action.FIND_COORDINATOR}
            if Action.FIND_COORDINATOR in actions:
                self._pool.forget_coordinator(self._group_id)
            if actions.isdisjoint(_TRIED_AGAIN):
                break
        if failure is not None:
            raise failure
        return {topic_partition: code for topic_partition, code in codes.items() if code}


class LoopCommits:
    """One commit after the other. A commit whose caller is cancelled is finished all the same."""

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
        self.store = LoopOffsets(config, self._pool, group_id)
        self._turn = asyncio.Lock()
        self._tasks = Tasks()
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
            return await self.store.fetch(partitions)

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
            await self._tasks.cancel()
            await self._pool.close()
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
                await self.store.commit(offsets, membership)
            except OffsetCommitFailed as error:
                offsets = self._rules.left(error, offsets, membership, deadline)
                await asyncio.sleep(self._config.retry_backoff_ms / 1000)
            else:
                return


class LoopAutoCommit(CommitTimes):
    """Commits the positions every `interval_ms` and before partitions are given up; never if that is None."""

    def __init__(
        self,
        group_id: str,
        commits: LoopCommits,
        positions: Callable[[], CommittedOffsets],
        interval_ms: float | None,
    ) -> None:
        super().__init__(group_id, commits, positions, interval_ms)
        self._store = commits

    async def commit_now(self) -> None:
        """Commit before partitions are given up. A failure is logged: the group must not wait."""
        if not self.is_on:
            return
        try:
            offsets = self.changed()
            if offsets:
                await asyncio.shield(self._store.submit(offsets))
            await self._store.run_callbacks()
        except OttlaError as error:
            log.warning("group %r: the last commit: %s", self._group_id, error)

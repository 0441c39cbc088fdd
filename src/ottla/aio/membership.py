"""LoopMembership: drives a member of a group on an event loop, beside the coroutines of the application.

One task joins, syncs and sends heartbeats; another looks topics up for it. `DrivenMember` decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.aio.cluster import LoopMetadata
from ottla.aio.pool import LoopPool
from ottla.aio.waiting import LoopCondition, Tasks, is_set_within
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.consumer.coordinated.driven_member import DrivenMember
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_requests import MemberRequest
from ottla.consumer.coordinated.topic_selection import TopicSelection
from ottla.model.errors import OttlaError
from ottla.wire.schema import Response

log = logging.getLogger(__name__)

LEAVE_TIMEOUT_MS = 5_000
"""How long a member tries to tell the coordinator that it leaves."""


class LoopMembership(DrivenMember):
    """A member with two tasks, from `start` to `stop`."""

    def __init__(
        self,
        client_config: ClientConfig,
        config: MemberConfig,
        selection: TopicSelection,
        metadata: LoopMetadata,
        on_news: Callable[[], None],
    ) -> None:
        self._loop_changed = LoopCondition()
        super().__init__(client_config, config, selection, on_news, self._loop_changed)
        self._metadata = metadata
        self._max_age_ms = client_config.metadata_max_age_ms
        self._pool = LoopPool(client_config, metadata)
        self._look_wanted = asyncio.Event()
        self._tasks = Tasks()
        self.is_started = False

    def start(self) -> None:
        """Start the tasks, if they are not started yet."""
        if not self.is_started:
            self.is_started = True
            self._tasks.start(self._run(), f"ottla-group-{self.config.group_id}")
            self._tasks.start(self._watch(), f"ottla-topics-{self.config.group_id}")

    def subscribe(self, selection: TopicSelection) -> None:
        """Want other topics from now on."""
        self.lookups.selection = selection
        self._look_wanted.set()
        if not selection.is_pattern:
            self.with_member(lambda member: member.subscribe(selection.names))

    def retry(self) -> None:
        """Join again, if an error ended the membership."""
        self.with_member(lambda member: member.retry())
        self._look_wanted.set()

    async def stop(self) -> None:
        """End the tasks, then leave the group. May be called twice."""
        await self._tasks.cancel()
        request = self.with_member(lambda member: member.leave())
        # The answer to a join may be due on this connection: a new one is needed to leave.
        await self._pool.close()
        if request is not None:
            await self._send_leave(request)
            await self._pool.close()

    async def _send_leave(self, leave: MemberRequest) -> None:
        try:
            deadline = Deadline(MONOTONIC, LEAVE_TIMEOUT_MS)
            connection = await self._pool.to_coordinator(self.config.group_id, deadline)
            version = connection.version_for(leave.api)
            timeout_ms = deadline.for_try(LEAVE_TIMEOUT_MS).timeout_ms
            await connection.call(leave.build(version), version=version, timeout_ms=timeout_ms)
            log.info("group %r: left", self.config.group_id)
        except OttlaError as error:
            log.warning(
                "group %r: could not tell the coordinator that this member leaves: %s",
                self.config.group_id,
                error,
            )

    # --- tasks

    async def _run(self) -> None:
        while True:
            try:
                request = self.due_request(self._metadata.view)
                if request is None:
                    await self._loop_changed.notified(self.wait_s())
                else:
                    await self._send(request)
            except Exception as error:  # noqa: BLE001 - the application gets it
                self.broke(error)
            self.report()

    async def _send(self, request: MemberRequest) -> None:
        response: Response | None = None
        try:
            # The broker that is asked for the coordinator may not answer; leave time to ask another one.
            deadline = Deadline(MONOTONIC, self.config.session_timeout_ms / 3)
            connection = await self._pool.to_coordinator(self.config.group_id, deadline)
            version = connection.version_for(request.api)
            response = await connection.call(
                request.build(version),
                version=version,
                timeout_ms=request.timeout_ms,
                kept_ms=request.kept_ms,
            )
        except OttlaError as error:
            self.no_answer(error)
        is_assigning, is_doubtful = self.answered(response)
        if is_assigning:
            self._look_wanted.set()
        if is_doubtful:
            self._pool.forget_coordinator(self.config.group_id)

    async def _watch(self) -> None:
        failures = 0
        while True:
            self._look_wanted.clear()
            failures = 0 if await self._has_seen_all() else failures + 1
            pause_ms = self.pause_ms(failures) if failures else self._max_age_ms
            await is_set_within(self._look_wanted, pause_ms / 1000)

    async def _has_seen_all(self) -> bool:
        lookup = self.lookups.once(lambda: self._metadata.view)
        try:
            wanted = next(lookup)
            while True:
                if wanted is None:
                    view = await self._metadata.refresh_all(reason="topics by pattern")
                else:
                    view = await self._metadata.refresh(sorted(wanted), reason="topics of the group")
                wanted = lookup.send(view)
        except StopIteration as end:
            has_seen_all: bool = end.value
            return has_seen_all
        except Exception as error:  # noqa: BLE001 - the application gets it
            return self.lookups.failed(error)

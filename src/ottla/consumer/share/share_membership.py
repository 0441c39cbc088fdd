"""The membership of a ShareConsumer: its heartbeats as conversations, and the assignment that they bring."""

from __future__ import annotations

import logging
import random
import uuid
from typing import Any

from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Condition, Deadline
from ottla.client.peer_pool import PeerPool
from ottla.client.reactions import Action, Call, action_about
from ottla.client.retry import Backoff
from ottla.consumer.share.share_member import ShareMember, TopicIdPartition
from ottla.model.errors import OttlaError

log = logging.getLogger(__name__)

CALL_TIMEOUT_MS = 10_000.0
LEAVE_TIMEOUT_MS = 5_000
"""How long a member tries to tell the coordinator that it leaves."""


class ShareMembership:
    """Its driver, a thread or a task, calls `beat` repeatedly.

    Other threads read the assignment, or the error that ended it.
    """

    def __init__(
        self,
        client: ClientConfig,
        peers: PeerPool[Any],
        group_id: str,
        topics: tuple[str, ...],
        rack: str | None,
        changed: Condition,
    ) -> None:
        self._backoff = Backoff(client.retry_backoff_ms, client.retry_backoff_max_ms)
        self._chance = random.Random()
        self._peers = peers
        self._failures = 0
        self._changed = changed  # guards the next four lines
        self._member = ShareMember(group_id, str(uuid.uuid4()), topics, rack)
        self._may_be_known = False  # to the coordinator, even if its answer has not come
        self._is_stopping = False
        self._is_due = False
        self._error: OttlaError | None = None

    @property
    def member_id(self) -> str:
        """The id of this member, which it keeps."""
        return self._member.member_id

    @property
    def epoch(self) -> int:
        """The member's epoch; 0 while it is not in the group."""
        with self._changed:
            return self._member.epoch

    def assigned(self) -> frozenset[TopicIdPartition] | None:
        """Return the present assignment, None before the first. Raises what ended the membership."""
        with self._changed:
            if self._error is not None:
                raise self._error
            return self._member.assigned

    def has_work(self) -> bool:
        """Whether there are partitions to fetch from, or an error to raise."""
        return bool(self._member.assigned) or self._error is not None

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Want other topics from now on."""
        with self._changed:
            self._member.subscribe(topics)
            self._is_due = True
            self._changed.notify_all()

    async def beat(self) -> float:
        """Send a heartbeat; return after how many milliseconds the next is due."""
        try:
            pause_ms = await self._answered()
            self._failures = 0
        except OttlaError as error:
            self._failures += 1
            pause_ms = self._backoff.pause_ms(self._failures, self._chance)
            self._note(error)
        return pause_ms

    async def _answered(self) -> float:
        with self._changed:
            member = self._member
            request = member.request()
        deadline = Deadline(MONOTONIC, CALL_TIMEOUT_MS)
        connection = await self._peers.to_coordinator(member.group_id, deadline)
        self._may_be_known = True
        response = await connection.call(request, timeout_ms=CALL_TIMEOUT_MS)
        with self._changed:
            pause_ms = member.answered(response, request)
            self._error = member.failure
            is_doubtful, member.is_coordinator_doubtful = member.is_coordinator_doubtful, False
            self._changed.notify_all()
        if is_doubtful:
            self._peers.forget_coordinator(member.group_id)
        return pause_ms

    def _note(self, error: OttlaError) -> None:
        if self._is_stopping:
            return
        group_id = self._member.group_id
        log.warning("share group %r: no answer from the coordinator: %s", group_id, error)
        self._peers.forget_coordinator(group_id)
        if action_about(error, Call.FIND_COORDINATOR) is Action.FAIL:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    async def leave(self, peers: PeerPool[Any]) -> None:
        """Tell the coordinator that this member leaves, if it may be in the group. A failure is logged."""
        if not self._may_be_known:
            return
        self._may_be_known = False
        try:
            connection = await peers.to_coordinator(
                self._member.group_id, Deadline(MONOTONIC, LEAVE_TIMEOUT_MS)
            )
            await connection.call(self._member.leaving(), timeout_ms=LEAVE_TIMEOUT_MS)
        except OttlaError as error:
            text = "share group %r: could not tell the coordinator that this member leaves: %s"
            log.warning(text, self._member.group_id, error)

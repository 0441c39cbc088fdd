"""The thread that sends the heartbeats of a ShareConsumer, and knows its assignment."""

from __future__ import annotations

import logging
import random
import threading
import uuid
from dataclasses import replace

from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.interruption import Interruption, ended
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.reactions import Action, Call, action_about
from ottla.client.retry import Backoff
from ottla.consumer.share.share_member import ShareMember, TopicIdPartition
from ottla.model.errors import OttlaError

log = logging.getLogger(__name__)

CALL_TIMEOUT_MS = 10_000.0
LEAVE_TIMEOUT_MS = 5_000
"""How long a member tries to tell the coordinator that it leaves."""


class Heartbeats:
    """Joins with `start`, leaves with `stop`. Other threads see the assignment, and what ended it."""

    def __init__(
        self,
        client: ClientConfig,
        metadata: ClusterMetadata,
        group_id: str,
        topics: tuple[str, ...],
        rack: str | None,
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._backoff = Backoff(client.retry_backoff_ms, client.retry_backoff_max_ms)
        self._changed = threading.Condition(threading.Lock())  # guards the next four lines
        self._member = ShareMember(group_id, str(uuid.uuid4()), topics, rack)
        self._is_stopping = False
        self._is_due = False
        self._error: OttlaError | None = None
        self._interruption = Interruption()
        self._pool = ConnectionPool(client, metadata, interruption=self._interruption)
        self._thread = threading.Thread(target=self._run, name=f"ottla-share-{group_id}", daemon=True)

    @property
    def member_id(self) -> str:
        """The name of this member, which it keeps."""
        return self._member.member_id

    @property
    def epoch(self) -> int:
        """The member's epoch; 0 while it is not in the group."""
        with self._changed:
            return self._member.epoch

    @property
    def is_started(self) -> bool:
        """Whether `start` was called."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Start the thread, if it is not started yet."""
        if self._thread.ident is None and not self._is_stopping:
            self._thread.start()

    def assigned(self) -> frozenset[TopicIdPartition] | None:
        """Return the present assignment, None before the first. Raises what ended the membership."""
        with self._changed:
            if self._error is not None:
                raise self._error
            return self._member.assigned

    def wait_for_assignment(self, timeout_s: float) -> None:
        """Wait until there is an assignment, or an error, or the time is over."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._member.assigned is not None or self._error is not None, timeout_s
            )

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Want other topics from now on."""
        with self._changed:
            self._member.subscribe(topics)
            self._is_due = True
            self._changed.notify_all()

    # --- the thread

    def _run(self) -> None:
        chance, failures = random.Random(), 0
        while not self._is_stopping:
            try:
                pause_ms = self._beat()
                failures = 0
            except OttlaError as error:
                failures += 1
                pause_ms = self._backoff.pause_ms(failures, chance)
                self._note(error)
            with self._changed:
                if not (self._is_stopping or self._is_due):
                    self._changed.wait(pause_ms / 1000)
                self._is_due = False
        self._pool.close()
        self._interruption.close()

    def _beat(self) -> float:
        with self._changed:
            member = self._member
            request = member.request()
        deadline = Deadline(MONOTONIC, CALL_TIMEOUT_MS)
        connection = self._pool.to_coordinator(member.group_id, deadline)
        response = connection.call(request, timeout_ms=CALL_TIMEOUT_MS)
        with self._changed:
            pause_ms = member.answered(response, request)
            self._error = member.failure
            is_doubtful, member.is_coordinator_doubtful = member.is_coordinator_doubtful, False
            self._changed.notify_all()
        if is_doubtful:
            self._pool.forget_coordinator(member.group_id)
        return pause_ms

    def _note(self, error: OttlaError) -> None:
        if self._is_stopping:
            return
        group_id = self._member.group_id
        log.warning("share group %r: no answer from the coordinator: %s", group_id, error)
        self._pool.forget_coordinator(group_id)
        if action_about(error, Call.FIND_COORDINATOR) is Action.FAIL:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    # --- the end

    def stop(self) -> None:
        """End the thread, and leave the group. May be called twice."""
        with self._changed:
            is_first = not self._is_stopping
            self._is_stopping = True
            self._changed.notify_all()
        self._interruption.interrupt()
        if self.is_started:
            ended([self._thread], f"the member of share group {self._member.group_id!r}")
            if is_first and self._member.epoch > 0:
                self._leave()
        elif is_first:
            self._pool.close()
            self._interruption.close()

    def _leave(self) -> None:
        try:
            # New connections: those of the thread are interrupted for good.
            config = replace(
                self._client, request_timeout_ms=min(self._client.request_timeout_ms, LEAVE_TIMEOUT_MS)
            )
            with ClusterMetadata(config) as metadata, ConnectionPool(config, metadata) as pool:
                deadline = Deadline(MONOTONIC, LEAVE_TIMEOUT_MS)
                connection = pool.to_coordinator(self._member.group_id, deadline)
                connection.call(self._member.leaving(), timeout_ms=LEAVE_TIMEOUT_MS)
        except OttlaError as error:
            text = "share group %r: could not tell the coordinator that this member leaves: %s"
            log.warning(text, self._member.group_id, error)

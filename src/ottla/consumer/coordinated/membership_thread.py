"""MembershipThread: drives a member with sockets and a clock, beside the application's thread.

It joins, syncs and sends heartbeats; a `TopicWatch` looks topics up for it. The application's thread takes
AssignmentChanges from it and reports when they are done. A lock guards the member; no thread holds it while
it waits for a broker.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.interruption import Interruption, ended
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.consumer.coordinated.driven_member import DrivenMember
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_requests import MemberRequest
from ottla.consumer.coordinated.topic_selection import TopicSelection
from ottla.consumer.coordinated.topic_watch import TopicWatch
from ottla.model.errors import OttlaError
from ottla.wire.schema import Response

log = logging.getLogger(__name__)

LEAVE_TIMEOUT_MS = 5_000
"""How long a member tries to tell the coordinator that it leaves. If that fails, the group waits for the end
of its session."""


class MembershipThread(DrivenMember):
    """A member with two threads."""

    def __init__(
        self,
        client_config: ClientConfig,
        config: MemberConfig,
        selection: TopicSelection,
        metadata: ClusterMetadata,
        on_news: Callable[[], None],
    ) -> None:
        self._changed = threading.Condition(threading.Lock())
        super().__init__(client_config, config, selection, on_news, self._changed)
        self._client_config = client_config
        self._metadata = metadata
        self._is_stopping = False
        self._interruption = Interruption()
        self._pool = ConnectionPool(client_config, metadata, interruption=self._interruption)
        self._watch = TopicWatch(
            config.group_id, self.lookups, metadata, client_config.metadata_max_age_ms, self.pause_ms
        )
        self._thread = threading.Thread(target=self._run, name=f"ottla-group-{config.group_id}", daemon=True)

    # --- for the application's thread

    def start(self) -> None:
        """Start the threads, if they are not started yet."""
        if self._thread.ident is None and not self._is_stopping:
            self._watch.start()
            self._thread.start()

    @property
    def is_started(self) -> bool:
        """Whether `start` was called."""
        return self._thread.ident is not None

    def subscribe(self, selection: TopicSelection) -> None:
        """Want other topics from now on."""
        self._watch.select(selection)
        if not selection.is_pattern:
            self.with_member(lambda member: member.subscribe(selection.names))

    def retry(self) -> None:
        """Join again, if an error ended the membership."""
        self.with_member(lambda member: member.retry())
        self._watch.look_now()

    def stop(self) -> None:
        """End the threads and the metadata's requests, then leave the group. May be called twice."""
        with self._changed:
            is_first = not self._is_stopping
            self._is_stopping = True
            self._changed.notify_all()
        self._interruption.interrupt()
        self._metadata.interrupt()
        ended([self._watch.stop(), self._thread], f"the member of group {self.config.group_id!r}")
        if not is_first:
            return
        if not self.is_started:
            self._release()
        request = self.with_member(lambda member: member.leave())
        if request is not None:
            self._send_leave(request)

    def _send_leave(self, leave: MemberRequest) -> None:
        try:
            # New connections: those of the thread are interrupted for good.
            config = self._client_config
            config = replace(config, request_timeout_ms=min(config.request_timeout_ms, LEAVE_TIMEOUT_MS))
            with ClusterMetadata(config) as metadata, ConnectionPool(config, metadata) as pool:
                deadline = Deadline(MONOTONIC, LEAVE_TIMEOUT_MS)
                connection = pool.to_coordinator(self.config.group_id, deadline)
                version = connection.version_for(leave.api)
                timeout_ms = deadline.for_try(LEAVE_TIMEOUT_MS).timeout_ms
                connection.call(leave.build(version), version=version, timeout_ms=timeout_ms)
            log.info("group %r: left", self.config.group_id)
        except OttlaError as error:
            log.warning(
                "group %r: could not tell the coordinator that this member leaves: %s",
                self.config.group_id,
                error,
            )

    # --- the thread itself

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self._step()
            except Exception as error:  # noqa: BLE001 - the application's thread raises it
                self.broke(error)
        self._release()

    def _release(self) -> None:
        self._pool.close()
        self._interruption.close()

    def _step(self) -> None:
        """Send the request that is due, or wait."""
        with self._changed:
            request = self.due_request(self._metadata.view)
            if request is None:
                self._changed.wait(0.0 if self._is_stopping else self.wait_s())
        if request is not None:
            self._send(request)
        self.report()

    def _send(self, request: MemberRequest) -> None:
        response: Response | None = None
        try:
            # The broker that is asked for the coordinator may not answer; leave time to ask another one.
            deadline = Deadline(MONOTONIC, self.config.session_timeout_ms / 3)
            connection = self._pool.to_coordinator(self.config.group_id, deadline)
            version = connection.version_for(request.api)
            response = connection.call(
                request.build(version),
                version=version,
                timeout_ms=request.timeout_ms,
                kept_ms=request.kept_ms,
            )
        except OttlaError as error:
            if self._is_stopping:
                return
            self.no_answer(error)
        is_assigning, is_doubtful = self.answered(response)
        if is_assigning:
            self._watch.look_now()
        if is_doubtful:
            self._pool.forget_coordinator(self.config.group_id)

"""MembershipThread: drives a member with sockets and a clock, beside the application's thread.

It joins, syncs and sends heartbeats; a `TopicWatch` looks topics up for it. The application's thread takes
AssignmentChanges from it and reports when they are done. A lock guards the member; no thread holds it while
it waits for a broker.
"""

from __future__ import annotations

import logging
import random
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.interruption import Interruption, ended
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.reactions import Action, Call, action_about
from ottla.client.retry import Backoff
from ottla.consumer.coordinated.broker_assigned_member import BrokerAssignedMember
from ottla.consumer.coordinated.member import GroupConsumerMember
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_requests import MemberRequest
from ottla.consumer.coordinated.member_state import AssignmentChange, MemberState
from ottla.consumer.coordinated.topic_selection import TopicSelection, partition_counts
from ottla.consumer.coordinated.topic_watch import AnyMember, TopicIdWatch, TopicWatch
from ottla.model.errors import OttlaError
from ottla.offsets.coordinator_messages import Membership
from ottla.wire.schema import Response

log = logging.getLogger(__name__)

T = TypeVar("T")

LEAVE_TIMEOUT_MS = 5_000
"""How long a member tries to tell the coordinator that it leaves. If that fails, the group waits for the end
of its session."""


class MembershipThread:
    """Calls `on_news`, without a lock, when the application may have something to do."""

    def __init__(
        self,
        client_config: ClientConfig,
        config: MemberConfig,
        selection: TopicSelection,
        metadata: ClusterMetadata,
        on_news: Callable[[], None],
    ) -> None:
        self._client_config = client_config
        self._config = config
        self._metadata = metadata
        self._on_news = on_news
        chance = random.Random()
        backoff = Backoff(client_config.retry_backoff_ms, client_config.retry_backoff_max_ms)

        def pause_ms(failures: int) -> float:
            return backoff.pause_ms(failures, chance)

        names = None if selection.is_pattern else selection.names
        self._member: AnyMember = (
            BrokerAssignedMember(config, names, pause_ms, str(uuid.uuid4()))
            if config.is_broker_assigned
            else GroupConsumerMember(config, names, pause_ms)
        )
        self._changed = threading.Condition(threading.Lock())  # guards the member and the next line
        self._is_stopping = False
        self._interruption = Interruption()
        self._pool = ConnectionPool(client_config, metadata, interruption=self._interruption)
        watch = TopicIdWatch if config.is_broker_assigned else TopicWatch
        self._watch = watch(
            config.group_id, selection, metadata, client_config.metadata_max_age_ms, self, pause_ms
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

    def with_member(self, act: Callable[[AnyMember], T]) -> T:
        """Call `act` with the member, under its lock, and wake the thread. From any thread."""
        with self._changed:
            result = act(self._member)
            self._changed.notify_all()
            return result

    def polled(self) -> AssignmentChange | None:
        """Note that the application polls; return what it has to do first, or None.

        Raises what ended the membership.
        """
        with self._changed:
            member = self._member
            if member.failure is not None:
                raise member.failure
            before = member.state, member.is_polled
            member.polled(MONOTONIC.now_ms())
            change = member.due_change()
            if before != (member.state, member.is_polled):  # seldom, while polls are frequent
                self._changed.notify_all()
            return change

    def change_done(self) -> None:
        """Note that the application has carried out the change."""
        self.with_member(lambda member: member.change_done())

    def subscribe(self, selection: TopicSelection) -> None:
        """Want other topics from now on."""
        self._watch.select(selection)
        if not selection.is_pattern:
            self.with_member(lambda member: member.subscribe(selection.names))

    def retry(self) -> None:
        """Join again, if an error ended the membership."""
        self.with_member(lambda member: member.retry())
        self._watch.look_now()

    def refused_commit(self, code: int, membership: Membership) -> None:
        """Report the error of a commit to the member."""
        self.with_member(lambda member: member.refused_commit(code, membership, MONOTONIC.now_ms()))

    @property
    def membership(self) -> Membership:
        """The member's present identity."""
        with self._changed:
            return self._member.membership

    @property
    def has_refused_topics(self) -> bool:
        """Whether this member leads the group and cannot assign a topic because brokers refuse it."""
        return self._watch.has_refused_topics

    def tell_refusal(self) -> None:
        """Raise why a topic is refused, once."""
        error = self._watch.take_untold()
        if error is not None:
            raise error

    @property
    def state(self) -> MemberState:
        """The member's present state."""
        with self._changed:
            return self._member.state

    def stop(self) -> None:
        """End the threads and the metadata's requests, then leave the group. May be called twice."""
        with self._changed:
            is_first = not self._is_stopping
            self._is_stopping = True
            self._changed.notify_all()
        self._interruption.interrupt()
        self._metadata.interrupt()
        ended([self._watch.stop(), self._thread], f"the member of group {self._config.group_id!r}")
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
                connection = pool.to_coordinator(self._config.group_id, deadline)
                version = connection.version_for(leave.api)
                timeout_ms = deadline.for_try(LEAVE_TIMEOUT_MS).timeout_ms
                connection.call(leave.build(version), version=version, timeout_ms=timeout_ms)
            log.info("group %r: left", self._config.group_id)
        except OttlaError as error:
            log.warning(
                "group %r: could not tell the coordinator that this member leaves: %s",
                self._config.group_id,
                error,
            )

    # --- the thread itself

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self._step()
            except Exception as error:  # noqa: BLE001 - the application's thread raises it
                self.with_member(lambda member: member.unanswered(MONOTONIC.now_ms()))
                self.fail(error)
        self._release()

    def _release(self) -> None:
        self._pool.close()
        self._interruption.close()

    def fail(self, error: Exception) -> None:
        """End the membership; the next poll raises `error`. From any thread."""
        self.with_member(lambda member: member.fail(error))
        self._on_news()

    def wake(self) -> None:
        """The application has something to be told. From any thread."""
        self._on_news()

    def _step(self) -> None:
        """Send the request that is due, or wait."""
        with self._changed:
            self._plan_if_late()
            request = self._member.next_request(MONOTONIC.now_ms())
            if request is None:
                self._changed.wait(self._wait_s())
        if request is not None:
            self._send(request)
        self._report()

    def _plan_if_late(self) -> None:
        """Assign with the partition counts known so far if no broker answers: otherwise the session ends.

        The watch continues; if it sees more partitions, the group joins again.
        """
        member = self._member
        if not isinstance(member, GroupConsumerMember):
            return
        topics = member.leader_topics
        if topics is not None and member.is_plan_late(MONOTONIC.now_ms()):
            known = partition_counts(self._metadata.view, topics)
            log.warning(
                "group %r: no broker answers for the topics, so the leader assigns what it knows: %s",
                self._config.group_id,
                known,
            )
            member.set_partition_counts(topics, known)

    def _wait_s(self) -> float | None:
        if self._is_stopping:
            return 0.0
        at_ms = self._member.next_at_ms()
        return None if at_ms is None else max(0.0, at_ms - MONOTONIC.now_ms()) / 1000

    def _send(self, request: MemberRequest) -> None:
        response: Response | None = None
        try:
            # The broker that is asked for the coordinator may not answer; leave time to ask another one.
            deadline = Deadline(MONOTONIC, self._config.session_timeout_ms / 3)
            connection = self._pool.to_coordinator(self._config.group_id, deadline)
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
            if action_about(error, Call.FIND_COORDINATOR) is Action.FAIL:
                self.fail(error)
            log.warning("group %r: no answer from the coordinator: %s", self._config.group_id, error)
        now_ms = MONOTONIC.now_ms()
        with self._changed:
            if response is None:
                self._member.unanswered(now_ms)
            else:
                self._member.answered(response, now_ms)
            is_assigning = self._member.is_assigning
            is_doubtful, self._member.is_coordinator_doubtful = self._member.is_coordinator_doubtful, False
        if is_assigning:
            self._watch.look_now()
        if is_doubtful:
            self._pool.forget_coordinator(self._config.group_id)

    def _report(self) -> None:
        """Log the member's notices, and wake the application if it has something to do."""
        with self._changed:
            notices = list(self._member.notices)
            self._member.notices.clear()
            is_news = self._member.change is not None or self._member.failure is not None
        for notice in notices:
            log.log(notice.level, "group %r: this member %s", self._config.group_id, notice.text)
        if is_news:
            self._on_news()

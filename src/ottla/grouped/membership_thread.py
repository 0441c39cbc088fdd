"""MembershipThread: drives a Member with sockets and a clock, beside the application's thread.

It joins, syncs and sends heartbeats; a `TopicWatch` tells it of topics. The application's thread takes
demands from it, and tells when they are done. A lock guards the member; it is never held while somebody waits
for a broker.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.config import ClientConfig
from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.retry import Action, Backoff, action_about
from ottla.grouped.config import MemberConfig
from ottla.grouped.demands import Demand
from ottla.grouped.member import Member
from ottla.grouped.member_requests import Ask
from ottla.grouped.member_state import State
from ottla.grouped.topic_watch import TopicWatch
from ottla.grouped.topics import TopicSelection, counts_in
from ottla.model.errors import OttlaError
from ottla.offsets.coordinator_messages import Membership
from ottla.wire.schema import Response

log = logging.getLogger(__name__)

T = TypeVar("T")

GOODBYE_MS = 5_000
"""How long a member tries to tell that it leaves; without that the group waits for its session to end."""


class MembershipThread:
    """`news` is called, without a lock, when there may be something for the application to do."""

    def __init__(
        self,
        client_config: ClientConfig,
        config: MemberConfig,
        selection: TopicSelection,
        metadata: ClusterMetadata,
        news: Callable[[], None],
    ) -> None:
        self._client_config = client_config
        self._config = config
        self._metadata = metadata
        self._news = news
        chance = random.Random()
        backoff = Backoff(client_config.retry_backoff_ms, client_config.retry_backoff_max_ms)
        self._member = Member(
            config,
            None if selection.is_pattern else selection.names,
            lambda failures: backoff.pause_ms(failures, chance),
        )
        self._changed = threading.Condition(threading.Lock())  # guards the member and the next line
        self._is_stopping = False
        self._interruption = Interruption()
        self._pool = ConnectionPool(client_config, metadata, interruption=self._interruption)
        self._watch = TopicWatch(
            config.group_id, selection, metadata, client_config.metadata_max_age_ms, self
        )
        self._thread = threading.Thread(target=self._run, name=f"ottla-group-{config.group_id}", daemon=True)

    # --- the application's thread

    def start(self) -> None:
        """Begin; nothing if it has begun."""
        if self._thread.ident is None and not self._is_stopping:
            self._watch.start()
            self._thread.start()

    def with_member(self, act: Callable[[Member], T]) -> T:
        """Do this with the member, and go on by what it changed. From any thread."""
        with self._changed:
            result = act(self._member)
            self._changed.notify_all()
            return result

    def polled(self) -> Demand | None:
        """The application is alive; what it shall do first. Raises what ended the membership."""
        with self._changed:
            member = self._member
            if member.failure is not None:
                raise member.failure
            before = member.state, member.is_polled
            member.polled(MONOTONIC.now_ms())
            demand = member.take_demand()
            if before != (member.state, member.is_polled):  # rarely: polls are many
                self._changed.notify_all()
            return demand

    def done(self) -> None:
        """The application has done what was demanded."""
        self.with_member(Member.done)

    def refused_commit(self, code: int, membership: Membership) -> None:
        """A commit was refused."""
        self.with_member(lambda member: member.refused_commit(code, membership, MONOTONIC.now_ms()))

    @property
    def membership(self) -> Membership:
        """Who this member is at present."""
        with self._changed:
            return self._member.membership

    @property
    def state(self) -> State:
        """Where it is."""
        with self._changed:
            return self._member.state

    def stop(self) -> None:
        """End the thread and the metadata's questions, and leave the group. May be called twice."""
        with self._changed:
            is_first = not self._is_stopping
            self._is_stopping = True
            self._changed.notify_all()
        self._interruption.interrupt()
        self._metadata.interrupt()
        self._watch.stop()
        if self._thread.is_alive():
            self._thread.join()
        if not is_first:
            return
        self._pool.close()
        self._interruption.close()
        goodbye = self.with_member(Member.depart)
        if goodbye is not None:
            self._leave(goodbye)

    def _leave(self, goodbye: Ask) -> None:
        try:
            # Connections of its own: those of the thread are interrupted for good.
            config = self._client_config
            config = replace(config, request_timeout_ms=min(config.request_timeout_ms, GOODBYE_MS))
            with ClusterMetadata(config) as metadata, ConnectionPool(config, metadata) as pool:
                connection = pool.to_coordinator(self._config.group_id, Deadline(MONOTONIC, GOODBYE_MS))
                version = connection.version_for(goodbye.api)
                connection.call(goodbye.request(version), version=version, timeout_ms=GOODBYE_MS)
            log.info("group %r: left", self._config.group_id)
        except OttlaError as error:
            log.warning("group %r: left without telling: %s", self._config.group_id, error)

    # --- its own thread

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._step()
        except Exception as error:  # noqa: BLE001 - the application's thread raises it
            if not self._is_stopping:
                self.fail(error)

    def fail(self, error: Exception) -> None:
        """End the membership; the application is told why. From any thread."""
        self.with_member(lambda member: member.fail(error))
        self._news()

    def _step(self) -> None:
        """One thing that is due, or a pause."""
        with self._changed:
            self._plan_if_late()
            ask = self._member.next(MONOTONIC.now_ms())
            if ask is None:
                self._changed.wait(self._pause_s())
        if ask is not None:
            self._ask(ask)
        self._tell()

    def _plan_if_late(self) -> None:
        """No broker tells of the topics: what was known of them before is better than a session that ends.
        The watch goes on, and if there is more the group joins again."""
        member = self._member
        topics = member.topics_led
        if topics is not None and member.is_plan_late(MONOTONIC.now_ms()):
            known = counts_in(self._metadata.view, topics)
            log.warning(
                "group %r: no broker tells of the topics, so it assigns what it knew: %s",
                self._config.group_id,
                known,
            )
            member.counted(topics, known)

    def _pause_s(self) -> float | None:
        if self._is_stopping:
            return 0.0
        at_ms = self._member.next_at_ms()
        return None if at_ms is None else max(0.0, at_ms - MONOTONIC.now_ms()) / 1000

    def _ask(self, ask: Ask) -> None:
        response: Response | None = None
        try:
            # Whom we ask for the coordinator may be stuck; time for another one has to be left.
            deadline = Deadline(MONOTONIC, self._config.session_timeout_ms / 3)
            connection = self._pool.to_coordinator(self._config.group_id, deadline)
            version = connection.version_for(ask.api)
            response = connection.call(ask.request(version), version=version, timeout_ms=ask.timeout_ms)
        except OttlaError as error:
            if self._is_stopping:
                return
            if action_about(error) is Action.FAIL:
                raise
            log.warning("group %r: no answer from the coordinator: %s", self._config.group_id, error)
        now_ms = MONOTONIC.now_ms()
        with self._changed:
            if response is None:
                self._member.unanswered(now_ms)
            else:
                self._member.answered(response, now_ms)
            has_to_assign = self._member.assigns
            doubtful, self._member.is_coordinator_doubtful = self._member.is_coordinator_doubtful, False
        if has_to_assign:
            self._watch.rouse()
        if doubtful:
            self._pool.forget_coordinator(self._config.group_id)

    def _tell(self) -> None:
        """Lines for the log, and the application woken if it has to do something."""
        with self._changed:
            notices = list(self._member.notices)
            self._member.notices.clear()
            is_news = self._member.demand is not None or self._member.failure is not None
        for notice in notices:
            log.log(notice.level, "group %r: this member %s", self._config.group_id, notice.text)
        if is_news:
            self._news()

"""MembershipThread: drives a Member with sockets and a clock, beside the application's thread.

It joins, syncs, sends heartbeats and watches the topics. The application's thread takes demands from it, and
tells when they are done. A lock guards the member; it is never held while somebody waits for a broker.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
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
from ottla.grouped.topics import TopicSelection, partition_counts
from ottla.model.errors import OttlaError
from ottla.offsets.coordinator_messages import Membership
from ottla.wire.schema import Response

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_AGAIN_MS = 1_000.0
"""How soon topics are looked for that did not exist."""

GOODBYE_MS = 5_000.0
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
        self._selection = selection
        self._metadata = metadata
        self._news = news
        chance = random.Random()
        backoff = Backoff(client_config.retry_backoff_ms, client_config.retry_backoff_max_ms)
        self._member = Member(config, selection.names, lambda failures: backoff.pause_ms(failures, chance))
        self._changed = threading.Condition(threading.Lock())  # guards the member and the next line
        self._is_stopping = False
        self._interruption = Interruption()
        self._pool = ConnectionPool(client_config, metadata, interruption=self._interruption)
        self._looked_at_ms: float | None = None
        self._look_again_ms = 0.0
        self._thread = threading.Thread(target=self._run, name=f"ottla-group-{config.group_id}", daemon=True)

    # --- the application's thread

    def start(self) -> None:
        """Begin; nothing if it has begun."""
        if self._thread.ident is None and not self._is_stopping:
            self._thread.start()

    def _with_member(self, act: Callable[[Member], T]) -> T:
        with self._changed:
            result = act(self._member)
            self._changed.notify_all()
            return result

    def polled(self) -> Demand | None:
        """The application is alive; what it shall do first. Raises what ended the membership."""

        def act(member: Member) -> Demand | None:
            if member.failure is not None:
                raise member.failure
            member.polled(MONOTONIC.now_ms())
            return member.take_demand()

        return self._with_member(act)

    def done(self) -> None:
        """The application has done what was demanded."""
        self._with_member(Member.done)

    def refused_commit(self, code: int, membership: Membership) -> None:
        """A commit was refused."""
        self._with_member(lambda member: member.refused_commit(code, membership, MONOTONIC.now_ms()))

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
        if self._thread.is_alive():
            self._thread.join()
        if not is_first:
            return
        self._pool.close()
        self._interruption.close()
        goodbye = self._with_member(Member.depart)
        if goodbye is not None:
            self._leave(goodbye)

    def _leave(self, goodbye: Ask) -> None:
        try:
            config = self._client_config
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
                with self._changed:
                    self._member.fail(error)
                self._news()

    def _step(self) -> None:
        """One thing that is due, or a pause."""
        if self._is_time_to_look():
            self._look()
        with self._changed:
            topics, ask = self._member.topics_wanted, None
            if topics is None:
                ask = self._member.next(MONOTONIC.now_ms())
            if topics is None and ask is None:
                self._changed.wait(self._pause_s())
        if topics is not None:
            counts = self._counts(topics)
            self._with_member(lambda member: member.plan(counts))
        elif ask is not None:
            self._ask(ask)
        self._tell()

    def _pause_s(self) -> float | None:
        if self._is_stopping:
            return 0.0
        at_ms = [self._member.next_at_ms(), self._look_at_ms()]
        due = [one for one in at_ms if one is not None]
        return max(0.0, min(due) - MONOTONIC.now_ms()) / 1000 if due else None

    def _ask(self, ask: Ask) -> None:
        response: Response | None = None
        try:
            connection = self._pool.to_coordinator(self._config.group_id)
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
            doubtful, self._member.is_coordinator_doubtful = self._member.is_coordinator_doubtful, False
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

    # --- topics

    def _look_at_ms(self) -> float | None:
        return None if self._looked_at_ms is None else self._looked_at_ms + self._look_again_ms

    def _is_time_to_look(self) -> bool:
        at_ms = self._look_at_ms()
        return at_ms is None or MONOTONIC.now_ms() >= at_ms

    def _look(self) -> None:
        """Whether topics came, went or grew: by everybody for a pattern, by the leader for the group's."""
        try:
            is_whole = self._look_once()
        except OttlaError as error:
            self._check(error)
            is_whole = False
        self._looked_at_ms = MONOTONIC.now_ms()
        self._look_again_ms = self._client_config.metadata_max_age_ms if is_whole else LOOK_AGAIN_MS

    def _look_once(self) -> bool:
        if self._selection.is_pattern:
            found = self._selection.found_in(self._metadata.refresh_all(reason="topics by pattern"))
            self._with_member(lambda member: member.subscribe(found))
        with self._changed:
            watched = self._member.topics_watched
        counts = partition_counts(self._metadata, watched, "topics of the group")
        self._with_member(lambda member: member.counts_changed(counts))
        return len(counts) == len(watched)

    def _check(self, error: OttlaError) -> None:
        """Raise what does not go away."""
        if self._is_stopping or action_about(error) is Action.FAIL:
            raise error
        log.warning("group %r: topics could not be looked up: %s", self._config.group_id, error)

    def _counts(self, topics: frozenset[str]) -> Mapping[str, int]:
        """For a plan: there is none without them."""
        while True:
            try:
                counts = partition_counts(self._metadata, topics, "to assign")
            except OttlaError as error:
                self._check(error)
                MONOTONIC.pause(self._client_config.retry_backoff_max_ms, self._interruption.event)
            else:
                if len(counts) < len(topics):
                    self._look_again_ms = LOOK_AGAIN_MS
                return counts

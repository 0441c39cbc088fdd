"""DrivenMember: a member of a group, as the application and its driver see it. Waits for nothing.

A driver sends the requests that are due and reports the answers; the application takes AssignmentChanges and
reports when they are done. A condition guards the member; no thread holds it while it waits for a broker.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable
from typing import TypeVar

from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Condition
from ottla.client.reactions import Action, Call, action_about
from ottla.client.retry import Backoff
from ottla.consumer.coordinated.broker_assigned_member import BrokerAssignedMember
from ottla.consumer.coordinated.member import GroupConsumerMember
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_requests import MemberRequest
from ottla.consumer.coordinated.member_state import AssignmentChange, MemberState
from ottla.consumer.coordinated.topic_lookups import AnyMember, TopicIdLookups, TopicLookups
from ottla.consumer.coordinated.topic_selection import TopicSelection, partition_counts
from ottla.model.cluster_view import ClusterView
from ottla.model.errors import OttlaError
from ottla.offsets.coordinator_messages import Membership
from ottla.wire.schema import Response

log = logging.getLogger(__name__)

T = TypeVar("T")


class DrivenMember:
    """Calls `on_news`, without a lock, when the application may have something to do."""

    def __init__(
        self,
        client_config: ClientConfig,
        config: MemberConfig,
        selection: TopicSelection,
        on_news: Callable[[], None],
        changed: Condition,
    ) -> None:
        self.config = config
        self.changed = changed  # guards the member
        self._on_news = on_news
        chance = random.Random()
        backoff = Backoff(client_config.retry_backoff_ms, client_config.retry_backoff_max_ms)

        def pause_ms(failures: int) -> float:
            return backoff.pause_ms(failures, chance)

        self.pause_ms = pause_ms
        names = None if selection.is_pattern else selection.names
        self._member: AnyMember = (
            BrokerAssignedMember(config, names, pause_ms, str(uuid.uuid4()))
            if config.is_broker_assigned
            else GroupConsumerMember(config, names, pause_ms)
        )
        lookups_type = TopicIdLookups if config.is_broker_assigned else TopicLookups
        self.lookups = lookups_type(config.group_id, selection, self)

    # --- the application

    def with_member(self, act: Callable[[AnyMember], T]) -> T:
        """Call `act` with the member, under its lock, and wake the driver."""
        with self.changed:
            result = act(self._member)
            self.changed.notify_all()
            return result

    def polled(self) -> AssignmentChange | None:
        """Note that the application polls; return what it has to do first, or None.

        Raises what ended the membership.
        """
        with self.changed:
            member = self._member
            if member.failure is not None:
                raise member.failure
            before = member.state, member.is_polled
            member.polled(MONOTONIC.now_ms())
            change = member.due_change()
            if before != (member.state, member.is_polled):  # seldom, while polls are frequent
                self.changed.notify_all()
            return change

    def change_done(self) -> None:
        """Note that the application has carried out the change."""
        self.with_member(lambda member: member.change_done())

    def refused_commit(self, code: int, membership: Membership) -> None:
        """Report the error of a commit to the member."""
        self.with_member(lambda member: member.refused_commit(code, membership, MONOTONIC.now_ms()))

    @property
    def membership(self) -> Membership:
        """The member's current identity."""
        with self.changed:
            return self._member.membership

    @property
    def last_membership(self) -> Membership:
        """The current identity, or the last one if the member was put out of the group."""
        with self.changed:
            return self._member.last_membership

    @property
    def has_refused_topics(self) -> bool:
        """Whether this member leads the group and cannot assign a topic because brokers refuse it."""
        return self.lookups.has_refused_topics

    def raise_refusal(self) -> None:
        """Raise the error of a topic that brokers refuse, once for each."""
        error = self.lookups.take_unreported()
        if error is not None:
            raise error

    @property
    def state(self) -> MemberState:
        """The member's present state."""
        with self.changed:
            return self._member.state

    def fail(self, error: Exception) -> None:
        """End the membership; the next poll raises `error`. From any thread."""
        self.with_member(lambda member: member.fail(error))
        self._on_news()

    def wake(self) -> None:
        """Tell the application that it has something to do. From any thread."""
        self._on_news()

    # --- the driver

    def due_request(self, view: ClusterView) -> MemberRequest | None:
        """The request to send now; None if nothing is due. Called under the lock."""
        self._plan_if_late(view)
        return self._member.next_request(MONOTONIC.now_ms())

    def _plan_if_late(self, view: ClusterView) -> None:
        """Assign with the partition counts known so far if no broker answers: otherwise the session ends.

        The watch continues; if it sees more partitions, the group joins again.
        """
        member = self._member
        if not isinstance(member, GroupConsumerMember):
            return
        topics = member.leader_topics
        if topics is not None and member.is_plan_late(MONOTONIC.now_ms()):
            known = partition_counts(view, topics)
            log.warning(
                "group %r: no broker answers for the topics, so the leader assigns what it knows: %s",
                self.config.group_id,
                known,
            )
            member.set_partition_counts(topics, known)

    def wait_s(self) -> float | None:
        """Return the time until something is due; None: not before an event. Called under the lock."""
        at_ms = self._member.next_at_ms()
        return None if at_ms is None else max(0.0, at_ms - MONOTONIC.now_ms()) / 1000

    def answered(self, response: Response | None) -> tuple[bool, bool]:
        """Take the response to the request in flight; None if there was none.

        Returns whether topics have to be looked up now, and whether the coordinator may have moved.
        """
        now_ms = MONOTONIC.now_ms()
        with self.changed:
            if response is None:
                self._member.unanswered(now_ms)
            else:
                self._member.answered(response, now_ms)
            is_assigning = self._member.is_assigning
            is_doubtful, self._member.is_coordinator_doubtful = self._member.is_coordinator_doubtful, False
        return is_assigning, is_doubtful

    def no_answer(self, error: OttlaError) -> None:
        """Note that no coordinator has answered."""
        if action_about(error, Call.FIND_COORDINATOR) is Action.FAIL:
            self.fail(error)
        log.warning("group %r: no answer from the coordinator: %s", self.config.group_id, error)

    def broke(self, error: Exception) -> None:
        """End the membership: the driver failed."""
        self.with_member(lambda member: member.unanswered(MONOTONIC.now_ms()))
        self.fail(error)

    def report(self) -> None:
        """Log the member's notices, and wake the application if it has something to do."""
        with self.changed:
            notices = list(self._member.notices)
            self._member.notices.clear()
            is_news = self._member.change is not None or self._member.failure is not None
        for notice in notices:
            log.log(notice.level, "group %r: this member %s", self.config.group_id, notice.text)
        if is_news:
            self._on_news()

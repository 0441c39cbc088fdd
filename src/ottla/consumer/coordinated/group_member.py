"""CoordinatedMember: what both kinds of members of a coordinator's group have in common. Pure.

The thread that owns a member repeats three steps:

    request = member.next_request(now_ms)        # to send to the coordinator, if one is due
    member.answered(response, now_ms)            # or member.unanswered(now_ms)
    member.due_change()                          # what the application has to do; then member.change_done()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from logging import WARNING
from typing import ClassVar

from ottla.client.reactions import Action, Call
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_requests import MemberRequest
from ottla.consumer.coordinated.member_state import (
    BEATING,
    ENDS,
    MEMBERSHIP_ERRORS,
    NO_PARTITIONS,
    AssignmentChange,
    MemberEvent,
    MemberNotice,
    MemberState,
    PartitionSet,
)
from ottla.consumer.coordinated.member_times import MemberTimes
from ottla.model.error_codes import Code
from ottla.offsets.coordinator_messages import Membership
from ottla.wire.consumer_protocol import NO_GENERATION
from ottla.wire.transitions import advance


class CoordinatedMember(ABC):
    """A member of a group.

    With `topics` None it does not join before `subscribe`. `pause_ms(failures)` is the pause after that many
    failures in a row.
    """

    transitions: ClassVar[Mapping[MemberState, Mapping[MemberEvent, MemberState]]]

    def __init__(
        self, config: MemberConfig, topics: Iterable[str] | None, pause_ms: Callable[[int], float]
    ) -> None:
        self.config = config
        self.state = MemberState.JOINING
        self.owned = NO_PARTITIONS
        self.change: AssignmentChange | None = None
        self.failure: Exception | None = None
        self.is_coordinator_doubtful = False
        self.notices: list[MemberNotice] = []
        self._times = MemberTimes(config, pause_ms)
        self._topics = frozenset(topics or ())
        self._are_topics_known = topics is not None
        self._in_flight: MemberRequest | None = None
        self._is_evicted = False
        self._former: Membership | None = None

    @property
    @abstractmethod
    def membership(self) -> Membership:
        """The identity for commits; generation -1 while the member belongs to no generation."""

    @property
    def last_membership(self) -> Membership:
        """The current identity, or the last one while the member belongs to no generation: brokers refuse its
        commits.
        """
        membership = self.membership
        return self._former or membership if membership.generation == NO_GENERATION else membership

    def _depart(self, *, is_unknown: bool = False) -> None:
        if self.membership.generation != NO_GENERATION:
            self._former = self.membership
        self._forget_generation(is_unknown=is_unknown)

    @abstractmethod
    def _forget_generation(self, *, is_unknown: bool = False) -> None:
        """The member belongs to no generation now; if it `is_unknown`, the coordinator forgets its id too."""

    @abstractmethod
    def _due_request(self, now_ms: float) -> MemberRequest | None:
        """Return the request that is due."""

    @abstractmethod
    def _leave_request(self, leaver: Membership) -> MemberRequest | None:
        """Return the request by which a member leaves, or None if the coordinator need not know."""

    @abstractmethod
    def _change_carried_out(self) -> None:
        """Continue after the application has carried out a change."""

    @abstractmethod
    def _failed(self, now_ms: float) -> None:
        """Note that a request failed, and try again later."""

    @abstractmethod
    def _refused(self, code: int, call: Call, now_ms: float) -> None:
        """React to an error of the coordinator."""

    # --- the application

    def polled(self, now_ms: float) -> None:
        """Note that the application polls, so it is alive."""
        self._times.polled(now_ms)

    @property
    def is_polled(self) -> bool:
        """Whether the application polls; false before the first poll and after it was too slow."""
        return self._times.is_polled

    def due_change(self) -> AssignmentChange | None:
        """Return what the application has to do now, or None.

        A change that the application has not begun is outdated once the member is out of the group: it is
        replaced by one that says that all partitions are lost.
        """
        if self._is_evicted and self.change is not None:
            self.change = None
            self._lose()
        return self.change

    def change_done(self) -> None:
        """Note that the application has carried out the change."""
        change, self.change = self.change, None
        assert change is not None
        self.owned = (self.owned - change.revoked) | change.assigned
        if self.state in ENDS:
            return
        if self._is_evicted:
            self._lose()
        else:
            self._move(MemberEvent.DONE)
            self._change_carried_out()

    def _lose(self) -> None:
        """Give up all partitions as lost. The member joins again when the application has been told."""
        if self.owned:
            self._request_change(revoked=self.owned, is_lost=True)
            return
        self._is_evicted = False
        self._move(MemberEvent.DONE)

    def _request_change(
        self,
        *,
        revoked: PartitionSet = NO_PARTITIONS,
        assigned: PartitionSet = NO_PARTITIONS,
        is_lost: bool = False,
    ) -> None:
        self.change = AssignmentChange(revoked, assigned, is_lost, self.membership)

    # --- the coordinator

    def next_request(self, now_ms: float) -> MemberRequest | None:
        """Return the request that is due, to be sent now. None if nothing is due or one is in flight."""
        if self._in_flight is not None or self.state in ENDS:
            return None
        request = self._leave_if_too_slow(now_ms)
        if request is None and now_ms >= self._times.retry_at_ms:
            request = self._due_request(now_ms)
        self._in_flight = request
        return request

    @property
    def _may_join(self) -> bool:
        return self.state is MemberState.JOINING and self._times.is_polled and self._are_topics_known

    @property
    def _beats(self) -> bool:
        return self.state in BEATING and self.membership.generation != NO_GENERATION

    def unanswered(self, now_ms: float) -> None:
        """Note that no response will arrive: the coordinator may have performed the request or not."""
        self._in_flight = None
        self.is_coordinator_doubtful = True
        self._failed(now_ms)

    def refused_commit(self, code: int, membership: Membership, now_ms: float) -> None:
        """React to the error of a commit, as to the same error of a heartbeat."""
        if membership == self.membership and self.state in BEATING and code in MEMBERSHIP_ERRORS:
            self._refused(code, Call.OFFSET_COMMIT, now_ms)

    def _try_again(self, code: int, action: Action, subject: str, now_ms: float) -> None:
        """Note that a request was refused for the moment, and try again later."""
        self.is_coordinator_doubtful |= action is Action.FIND_COORDINATOR
        self._failed(now_ms)
        if self._times.is_failure_logged:
            text = f"is refused, and tries again: {subject} is answered {Code.of(code).name}"
            self.notices.append(MemberNotice(WARNING, text))

    # --- leaving

    def _evict(self, reason: str, now_ms: float, *, is_unknown: bool = False) -> None:
        self.notices.append(MemberNotice(WARNING, f"is out of the group: {reason}"))
        self._depart(is_unknown=is_unknown)
        self._times.retry_at_ms = now_ms
        self._is_evicted = True
        self._move(MemberEvent.EVICTED)
        if self.change is None:  # otherwise a change is under way; what the application owns after it is lost
            self._lose()

    def _leave_if_too_slow(self, now_ms: float) -> MemberRequest | None:
        """A member whose application does not poll leaves the group, so that others get its partitions."""
        took_ms = self._times.too_slow_ms(now_ms) if self._beats else 0.0
        if not took_ms:
            return None
        leaver = self.membership
        limit_ms = self.config.max_poll_interval_ms
        text = f"{took_ms:.0f} ms since the last poll, and max.poll.interval.ms is {limit_ms}"
        self._evict(f"{text}: process less between two polls, or raise it", now_ms, is_unknown=True)
        return self._leave_request(leaver)

    def leave(self) -> MemberRequest | None:
        """Leave for good. Return the request to send, or None if the coordinator need not know."""
        leaver = self.membership
        self._move(MemberEvent.LEAVE)
        self._depart()
        return self._leave_request(leaver)

    def fail(self, error: Exception) -> None:
        """End the membership; `failure` is raised in the application."""
        if self.state in ENDS:
            return
        self.failure = error
        self._depart()
        self._move(MemberEvent.REFUSED)

    def retry(self) -> None:
        """Join again, if an error ended the membership. The application has given all partitions up."""
        if self.state is MemberState.FAILED:
            self.failure = self.change = None
            self.owned = NO_PARTITIONS
            self._is_evicted = False
            self._times.retry_at_ms = 0.0
            self._move(MemberEvent.RETRIED)

    def _move(self, event: MemberEvent) -> None:
        self.state = advance(self.transitions, self.state, event)

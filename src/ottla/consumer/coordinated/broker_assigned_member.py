"""BrokerAssignedMember: a member of a consumer group (KIP-848), without a socket, a thread or a clock.

The same thread drives it as a `GroupConsumerMember`, by the same methods. It needs the names of topics by
their ids (`set_topic_names`), since assignments have ids. `broker_assigned_state` has the theory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from logging import INFO, WARNING

from ottla.client.reactions import Action, Call, action_for
from ottla.consumer.coordinated.broker_assigned_state import TRANSITIONS
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_requests import ConsumerGroupRequests, MemberRequest
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
    refusal,
)
from ottla.consumer.coordinated.member_times import MemberTimes
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.coordinator_messages import Membership
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.consumer_protocol import NO_GENERATION
from ottla.wire.schema import Response
from ottla.wire.transitions import advance

Target = dict[bytes, tuple[int, ...]]
"""An assignment: partitions by topic id."""


class BrokerAssignedMember:
    """A member whose broker assigns.

    With `topics` None it does not join before `subscribe`. `pause_ms(failures)` is the pause after that many
    failures in a row; `member_id` is its own choice, and it keeps it.
    """

    leader_topics = None
    """Only leaders of classic groups have some."""

    def __init__(
        self,
        config: MemberConfig,
        topics: Iterable[str] | None,
        pause_ms: Callable[[int], float],
        member_id: str,
    ) -> None:
        self.config = config
        self.state = MemberState.JOINING
        self.owned = NO_PARTITIONS
        self.change: AssignmentChange | None = None
        self.failure: Exception | None = None
        self.is_coordinator_doubtful = False
        self.notices: list[MemberNotice] = []
        self._requests = ConsumerGroupRequests(config, member_id)
        self._times = MemberTimes(config, pause_ms)
        self._topics = frozenset(topics or ())
        self._are_topics_known = topics is not None
        self._member_id = member_id
        self._epoch = NO_GENERATION
        self._target: Target = {}
        self._names: dict[bytes, str] = {}
        self._told_owned: PartitionSet | None = None  # what the broker knows; None: tell it everything
        self._told_topics: frozenset[str] | None = None
        self._telling: tuple[PartitionSet, frozenset[str]] = (NO_PARTITIONS, frozenset())
        self._in_flight: MemberRequest | None = None
        self._is_evicted = False

    @property
    def membership(self) -> Membership:
        """The identity for commits; generation -1 while the member is in no group."""
        return Membership(self._member_id, self._epoch, self.config.instance_id)

    # --- the application

    def polled(self, now_ms: float) -> None:
        """Note that the application polls, so it is alive."""
        self._times.polled(now_ms)

    @property
    def is_polled(self) -> bool:
        """Whether the application polls; false before the first poll and after it was too slow."""
        return self._times.is_polled

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want these topics from now on; the next heartbeat says so."""
        self._topics = frozenset(topics)
        self._are_topics_known = True

    def due_change(self) -> AssignmentChange | None:
        """Return what the application has to do now, or None.

        A change that it has not begun is outdated once the member is out of the group.
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
            self._reconcile()

    def _lose(self) -> None:
        """All partitions are lost; join again when the application knows."""
        if self.owned:
            self.change = AssignmentChange(
                self.owned, NO_PARTITIONS, is_lost=True, membership=self.membership
            )
            return
        self._is_evicted = False
        self._move(MemberEvent.DONE)

    # --- topics

    @property
    def unknown_ids(self) -> frozenset[bytes]:
        """The ids of assigned topics whose names are not known."""
        return frozenset(self._target.keys() - self._names.keys())

    @property
    def is_assigning(self) -> bool:
        """Whether names of topics have to be looked up."""
        return bool(self.unknown_ids)

    @property
    def wanted_topics(self) -> frozenset[str]:
        """The topics whose ids have to be looked up."""
        return self._topics

    def set_topic_names(self, names: Mapping[bytes, str]) -> None:
        """Report the names of topics by their ids."""
        self._names |= names
        self._reconcile()

    def _reconcile(self) -> None:
        """Have the application take the assignment, if it has something to do.

        Partitions of topics without a known name wait; what was given up does not.
        """
        if self.state is not MemberState.STABLE:
            return
        wanted = frozenset(
            TopicAndPartition(self._names[topic_id], number)
            for topic_id, numbers in self._target.items()
            if topic_id in self._names
            for number in numbers
        )
        revoked, assigned = self.owned - wanted, wanted - self.owned
        if revoked or assigned:
            self._move(MemberEvent.GIVEN)
            self.change = AssignmentChange(revoked, assigned, is_lost=False, membership=self.membership)

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

    def _due_request(self, now_ms: float) -> MemberRequest | None:
        claimed = self._claimed
        self._telling = claimed, self._topics
        if self._may_join:
            self._told_owned = self._told_topics = None
            return self._requests.join(self._topics)
        if not self._beats or not (self._has_news or self._times.is_heartbeat_due(now_ms)):
            return None
        return self._requests.heartbeat(
            self._epoch,
            topics=self._topics if self._told_topics != self._topics else None,
            owned=self._by_id(claimed) if self._told_owned != claimed else None,
            is_full=self._told_owned is None,
        )

    @property
    def _has_news(self) -> bool:
        """Whether the broker has to know something at once. What a change concerns, it is told afterwards."""
        if self.state is not MemberState.STABLE or self._times.retry_at_ms:
            return False
        return self._told_owned != self.owned or self._told_topics != self._topics

    @property
    def _claimed(self) -> PartitionSet:
        """What it has, and what the application is about to take: the broker must not give it to others."""
        return self.owned if self.change is None else self.owned | self.change.assigned

    def _by_id(self, partitions: PartitionSet) -> Target:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        owned: dict[bytes, list[int]] = {}
        for item in sorted(partitions):
            owned.setdefault(ids[item.topic], []).append(item.partition)
        return {topic_id: tuple(numbers) for topic_id, numbers in owned.items()}

    def next_at_ms(self) -> float | None:
        """When `next_request` may return something; None if that depends on an event."""
        if self._in_flight is not None:
            return None
        if self._may_join:
            return self._times.retry_at_ms
        if self._has_news:
            return 0.0
        return self._times.beat_at_ms if self._beats else None

    @property
    def _may_join(self) -> bool:
        return self.state is MemberState.JOINING and self._times.is_polled and self._are_topics_known

    @property
    def _beats(self) -> bool:
        return self.state in BEATING and self._epoch != NO_GENERATION

    def answered(self, response: Response, now_ms: float) -> None:
        """Take the response to the request in flight."""
        request, self._in_flight = self._in_flight, None
        assert request is not None
        # The answer to a leave, and one from before a `retry` or an eviction, say nothing of this membership.
        if self.state in ENDS or request.is_leave or not isinstance(response, ConsumerGroupHeartbeatResponse):
            return
        if response.error_code:
            self._refused(response.error_code, now_ms)
            return
        if self.state is MemberState.REVOKING:
            return
        self._times.interval_ms = response.heartbeat_interval_ms or self._times.interval_ms
        self._times.answered(now_ms)
        self._told_owned, self._told_topics = self._telling
        self._epoch = response.member_epoch
        if self.state is MemberState.JOINING:
            self._move(MemberEvent.JOINED)
        if response.assignment is not None:
            rows = response.assignment.topic_partitions
            self._target = {row.topic_id: tuple(row.partitions) for row in rows}
        self._reconcile()

    def unanswered(self, now_ms: float) -> None:
        """Note that no response will arrive: the coordinator may have performed the request or not."""
        self._in_flight = None
        self.is_coordinator_doubtful = True
        self._failed(now_ms)

    def _failed(self, now_ms: float) -> None:
        """Try again later, and tell everything then: the broker may know another state of this member."""
        self._told_owned = self._told_topics = None
        self._times.failed(now_ms)

    def refused_commit(self, code: int, membership: Membership, now_ms: float) -> None:
        """Take the error of a commit: it may say the same as the next heartbeat would."""
        if membership == self.membership and self.state in BEATING and code in MEMBERSHIP_ERRORS:
            self._refused(code, now_ms)

    def _refused(self, code: int, now_ms: float) -> None:
        action = action_for(code, Call.CONSUMER_GROUP_HEARTBEAT)
        cannot_join = code == Code.GROUP_ID_NOT_FOUND and self.state is MemberState.JOINING
        is_late = action is Action.FAIL_LATER and self._times.is_session_over(now_ms)
        if action is Action.FAIL or is_late or cannot_join:
            self.fail(refusal(self.config.group_id, code))
        elif action is Action.FORGET_GENERATION:
            self._evict(f"{Code.of(code).name}: {Code.of(code).text}", now_ms)
        else:
            self.is_coordinator_doubtful |= action is Action.FIND_COORDINATOR
            self._failed(now_ms)
            if self._times.is_failure_told:
                text = f"is refused, and tries again: its heartbeat is answered {Code.of(code).name}"
                self.notices.append(MemberNotice(WARNING, text))

    def _evict(self, reason: str, now_ms: float) -> None:
        if self.state is MemberState.JOINING:  # nothing to lose: join again, but not at once
            self._failed(now_ms)
            return
        self.notices.append(MemberNotice(WARNING, f"is out of the group: {reason}"))
        self._epoch = NO_GENERATION
        self._target = {}
        self._times.retry_at_ms = now_ms
        self._is_evicted = True
        self._move(MemberEvent.EVICTED)
        if self.change is None:  # else a change is under way; what the application owns after it is lost
            self._lose()

    def _leave_if_too_slow(self, now_ms: float) -> MemberRequest | None:
        """A member whose application does not poll leaves the group, so that others get its partitions."""
        took_ms = self._times.too_slow_ms(now_ms) if self._beats else 0.0
        if not took_ms:
            return None
        limit_ms = self.config.max_poll_interval_ms
        text = f"{took_ms:.0f} ms since the last poll, and max.poll.interval.ms is {limit_ms}"
        self._evict(f"{text}: process less between two polls, or raise it", now_ms)
        return self._requests.leave()

    def leave(self) -> MemberRequest | None:
        """Leave for good. Return the request to send, or None if the coordinator need not know.

        A static member says that it will be back: its partitions wait for it until its session ends.
        """
        is_member = self._epoch != NO_GENERATION
        self._move(MemberEvent.LEAVE)
        self._epoch = NO_GENERATION
        return self._requests.leave() if is_member else None

    def fail(self, error: Exception) -> None:
        """End the membership; `failure` is raised in the application."""
        if self.state in ENDS:
            return
        self.failure = error
        self._epoch = NO_GENERATION
        self._move(MemberEvent.REFUSED)

    def retry(self) -> None:
        """Join again, if an error ended the membership. The application has given all partitions up."""
        if self.state is MemberState.FAILED:
            self.failure = self.change = None
            self.owned = NO_PARTITIONS
            self._target = {}
            self._is_evicted = False
            self._times.retry_at_ms = 0.0
            self._move(MemberEvent.RETRIED)

    def _move(self, event: MemberEvent) -> None:
        before = self.state
        self.state = advance(TRANSITIONS, before, event)
        if event is MemberEvent.JOINED:
            self.notices.append(MemberNotice(INFO, f"is in the group, in epoch {self._epoch}"))

"""BrokerAssignedMember: a member of a consumer group (KIP-848), without a socket, a thread or a clock.

The same thread drives it as a `GroupConsumerMember`, by the same methods. It needs the names of topics by
their ids (`set_topic_names`), since assignments have ids. `broker_assigned_state` has the theory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from logging import INFO

from ottla.client.reactions import Action, Call, action_for
from ottla.consumer.coordinated.broker_assigned_state import TRANSITIONS
from ottla.consumer.coordinated.group_member import CoordinatedMember
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_requests import ConsumerGroupRequests, MemberRequest
from ottla.consumer.coordinated.member_state import (
    ENDS,
    NO_PARTITIONS,
    MemberEvent,
    MemberNotice,
    MemberState,
    PartitionSet,
    refusal,
)
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.coordinator_messages import Membership
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.consumer_protocol import NO_GENERATION
from ottla.wire.schema import Response

Target = dict[bytes, tuple[int, ...]]
"""An assignment: partitions by topic id."""


class BrokerAssignedMember(CoordinatedMember):
    """A member of a group whose broker assigns. It chooses its `member_id` itself and keeps it."""

    transitions = TRANSITIONS

    leader_topics = None
    """None: only leaders of classic groups look up topics for an assignment."""

    def __init__(
        self,
        config: MemberConfig,
        topics: Iterable[str] | None,
        pause_ms: Callable[[int], float],
        member_id: str,
    ) -> None:
        super().__init__(config, topics, pause_ms)
        self._requests = ConsumerGroupRequests(config, member_id)
        self._member_id = member_id
        self._epoch = NO_GENERATION
        self._target: Target = {}
        self._names: dict[bytes, str] = {}
        self._reported_owned: PartitionSet | None = None  # what the broker knows; None: send it everything
        self._reported_topics: frozenset[str] | None = None
        self._reporting: tuple[PartitionSet, frozenset[str]] = (NO_PARTITIONS, frozenset())
        # A list of owned partitions is sent and not answered: other members may get what is not on it.
        self._awaits_answer = False
        # An assignment came: the broker waits for a list of the owned partitions, even if it is the same one.
        self._must_report = False

    @property
    def membership(self) -> Membership:
        """The identity for commits; generation -1 while the member is in no group."""
        return Membership(self._member_id, self._epoch, self.config.instance_id)

    # --- the application

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want these topics from now on; the next heartbeat says so."""
        self._topics = frozenset(topics)
        self._are_topics_known = True

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

    def _change_carried_out(self) -> None:
        self._reconcile()

    def _reconcile(self) -> None:
        """Give the application the new assignment to carry out, if it differs from what the member owns.

        Partitions of topics without a known name wait; partitions to give up do not. While a list of owned
        partitions is sent and not answered, everything waits: the answer may bring another assignment.
        """
        if self.state is not MemberState.STABLE or self._awaits_answer:
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
            self._request_change(revoked=revoked, assigned=assigned)

    # --- the coordinator

    def _due_request(self, now_ms: float) -> MemberRequest | None:
        claimed = self._claimed
        self._reporting = claimed, self._topics
        if self._may_join:
            self._reported_owned = self._reported_topics = None
            return self._requests.join(self._topics)
        if not self._beats or not (self._has_news or self._times.is_heartbeat_due(now_ms)):
            return None
        sends_owned = self._must_report or self._reported_owned != claimed
        self._awaits_answer |= sends_owned
        self._must_report = False
        return self._requests.heartbeat(
            self._epoch,
            topics=self._topics if self._reported_topics != self._topics else None,
            owned=self._by_id(claimed) if sends_owned else None,
            is_full=self._reported_owned is None,
        )

    @property
    def _has_news(self) -> bool:
        """Whether a heartbeat has to be sent at once.

        Changes that the application is carrying out are reported when they are done.
        """
        if self.state is not MemberState.STABLE or self._times.retry_at_ms:
            return False
        has_changed = self._reported_owned != self.owned or self._reported_topics != self._topics
        return self._must_report or has_changed

    @property
    def _claimed(self) -> PartitionSet:
        """The partitions that the member has or is about to take: the broker must not give them to others."""
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

    def answered(self, response: Response, now_ms: float) -> None:
        """Take the response to the request in flight."""
        request, self._in_flight = self._in_flight, None
        assert request is not None
        # Answers to a leave, or to requests from before a `retry` or an eviction, do not concern this
        # membership.
        if self.state in ENDS or request.is_leave or not isinstance(response, ConsumerGroupHeartbeatResponse):
            return
        if response.error_code:
            self._refused(response.error_code, Call.CONSUMER_GROUP_HEARTBEAT, now_ms)
            return
        if self.state is MemberState.REVOKING:
            return
        self._times.interval_ms = response.heartbeat_interval_ms or self._times.interval_ms
        self._times.answered(now_ms)
        self._reported_owned, self._reported_topics = self._reporting
        self._awaits_answer = False
        self._epoch = response.member_epoch
        if self.state is MemberState.JOINING:
            self._move(MemberEvent.JOINED)
        if response.assignment is not None:
            rows = response.assignment.topic_partitions
            self._target = {row.topic_id: tuple(row.partitions) for row in rows}
            self._must_report = True
        self._reconcile()

    def _failed(self, now_ms: float) -> None:
        """Send the next heartbeat later, with the full state: the broker may not know what this one said."""
        self._reported_owned = self._reported_topics = None
        self._times.failed(now_ms)

    def _refused(self, code: int, _call: Call, now_ms: float) -> None:
        """React to an error of the coordinator. Errors of commits mean the same as those of heartbeats."""
        action = action_for(code, Call.CONSUMER_GROUP_HEARTBEAT)
        cannot_join = code == Code.GROUP_ID_NOT_FOUND and self.state is MemberState.JOINING
        is_late = action is Action.FAIL_LATER and self._times.is_session_over(now_ms)
        if action is Action.FAIL or is_late or cannot_join:
            self.fail(refusal(self.config.group_id, code))
        elif action is Action.FORGET_GENERATION:
            self._evict(f"{Code.of(code).name}: {Code.of(code).text}", now_ms)
        else:
            self._try_again(code, action, "its heartbeat", now_ms)

    def _evict(self, reason: str, now_ms: float, *, is_unknown: bool = False) -> None:
        if self.state is MemberState.JOINING:  # nothing to lose: join again, but not at once
            self._failed(now_ms)
        else:
            super()._evict(reason, now_ms, is_unknown=is_unknown)

    def _forget_generation(self, *, is_unknown: bool = False) -> None:  # noqa: ARG002  it keeps its id
        self._epoch = NO_GENERATION
        self._target = {}
        self._awaits_answer = self._must_report = False

    def _leave_request(self, leaver: Membership) -> MemberRequest | None:
        """Return the request to leave.

        A static member announces that it will be back: the broker keeps its partitions until its session
        ends.
        """
        return self._requests.leave() if leaver.generation != NO_GENERATION else None

    def _move(self, event: MemberEvent) -> None:
        super()._move(event)
        if event is MemberEvent.JOINED:
            self.notices.append(MemberNotice(INFO, f"is in the group, in epoch {self._epoch}"))

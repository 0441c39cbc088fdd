"""GroupConsumerMember: one member of a group as a state machine, without a socket, a thread or a clock.

The thread that owns it repeats three steps:

    request = member.next_request(now_ms)        # to send to the coordinator, if one is due
    member.answered(response, now_ms)            # or member.unanswered(now_ms)
    member.due_change()                          # what the application has to do; then member.change_done()

It also reports how many partitions the topics have (`set_partition_counts`), which a leader needs to assign.
`member_state` has the theory and the tables, `leadership` the work of a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from logging import INFO, WARNING

from ottla.client.reactions import Action, Call, action_for
from ottla.consumer.coordinated.assignors import LastAssignment
from ottla.consumer.coordinated.leadership import Leadership
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_requests import GroupRequests, MemberRequest, subscriptions
from ottla.consumer.coordinated.member_state import (
    BEATING,
    ENDS,
    MEMBERSHIP_ERRORS,
    NO_PARTITIONS,
    PLANNED,
    TRANSITIONS,
    AssignmentChange,
    MemberEvent,
    MemberNotice,
    MemberState,
    PartitionSet,
    refusal,
)
from ottla.consumer.coordinated.member_times import MemberTimes
from ottla.model.error_codes import Code
from ottla.model.errors import RemoteProtocolError
from ottla.offsets.coordinator_messages import Membership
from ottla.wire.api.heartbeat import HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupResponse
from ottla.wire.api.sync_group import SyncGroupResponse
from ottla.wire.consumer_protocol import (
    NO_GENERATION,
    Assignment,
    decode_assignment,
)
from ottla.wire.schema import Response
from ottla.wire.transitions import advance


class GroupConsumerMember:
    """A member of a coordinator's group.

    With `topics` None it does not join before `subscribe`. `pause_ms(failures)` is the pause after that many
    failures in a row.
    """

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
        self._requests = GroupRequests(
            config.group_id, config.session_timeout_ms, config.max_poll_interval_ms
        )
        self._times = MemberTimes(config, pause_ms)
        self._topics = frozenset(topics or ())
        self._are_topics_known = topics is not None
        self._membership = Membership(instance_id=config.instance_id)
        self._protocol = ""
        self._last_assignment = LastAssignment()
        self._leadership: Leadership | None = None
        self._plan: dict[str, bytes] = {}
        self._in_flight: MemberRequest | None = None
        self._rejoin_reason = ""
        self._is_evicted = False

    @property
    def membership(self) -> Membership:
        """The identity for commits; generation -1 while the member belongs to no generation."""
        return self._membership

    @property
    def leader_topics(self) -> frozenset[str] | None:
        """The topics whose partition counts a leader needs: all that any member wants. None if not leader."""
        return self._leadership.topics if self._leadership is not None else None

    @property
    def is_assigning(self) -> bool:
        """Whether the group waits for this leader, and the leader for partition counts."""
        return self.state is MemberState.ASSIGNING

    # --- the application

    def polled(self, now_ms: float) -> None:
        """Note that the application polls, so it is alive."""
        self._times.polled(now_ms)

    @property
    def is_polled(self) -> bool:
        """Whether the application polls; false before the first poll and after it was too slow."""
        return self._times.is_polled

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want these topics from now on; joins again if they differ."""
        wanted = frozenset(topics)
        self._are_topics_known = True
        if wanted != self._topics:
            self._topics = wanted
            self._wish_to_rejoin("its subscription changed")

    def due_change(self) -> AssignmentChange | None:
        """Return what the application has to do now, or None.

        A change that the application has not begun is outdated once the member is out of the group: it is
        replaced by one that says that all partitions are lost.
        """
        if self._is_evicted and self.change is not None:
            self.change = None
            self._proceed()
        return self.change

    def change_done(self) -> None:
        """Note that the application has carried out the change."""
        change, self.change = self.change, None
        assert change is not None
        self.owned = (self.owned - change.revoked) | change.assigned
        if self.state not in ENDS:
            self._proceed()

    def _proceed(self) -> None:
        """Continue after a change."""
        if self._is_evicted:
            if self.owned:
                self._request_change(revoked=self.owned, is_lost=True)
                return
            self._is_evicted = False
        self._move(MemberEvent.DONE)
        if self.state is MemberState.STABLE and self._rejoin_reason:
            self._rebalance(self._rejoin_reason)

    def _request_change(
        self,
        *,
        revoked: PartitionSet = NO_PARTITIONS,
        assigned: PartitionSet = NO_PARTITIONS,
        is_lost: bool = False,
    ) -> None:
        self.change = AssignmentChange(revoked, assigned, is_lost, self._membership)

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
        if self._may_join:
            self._rejoin_reason = ""
            return self._requests.join(
                self._membership,
                subscriptions(
                    self.config, self._topics, self.owned, self._last_assignment, self._membership.generation
                ),
            )
        if self.state is MemberState.SYNCING:
            return self._requests.sync(self._membership, self._protocol, self._plan)
        self._rejoin_if_short(now_ms)
        if self._beats and self._times.is_heartbeat_due(now_ms):
            return self._requests.heartbeat(self._membership, self._times.heartbeat_timeout_ms(now_ms))
        return None

    def next_at_ms(self) -> float | None:
        """When `next_request` may return something; None if that depends on an event."""
        if self._in_flight is not None:
            return None
        if self.state is MemberState.SYNCING or self._may_join:
            return self._times.retry_at_ms
        if self.is_assigning:
            return self._times.plan_by_ms
        return self._times.beat_at_ms if self._beats else None

    @property
    def _may_join(self) -> bool:
        return self.state is MemberState.JOINING and self._times.is_polled and self._are_topics_known

    @property
    def _beats(self) -> bool:
        return self.state in BEATING and self._membership.generation != NO_GENERATION

    def answered(self, response: Response, now_ms: float) -> None:
        """Take the response to the request in flight."""
        request, self._in_flight = self._in_flight, None
        assert request is not None
        if self.state in ENDS:
            return
        code = getattr(response, "error_code", Code.NONE)
        if isinstance(response, JoinGroupResponse | SyncGroupResponse | HeartbeatResponse):
            if code:
                member_id = response.member_id if isinstance(response, JoinGroupResponse) else ""
                self._refused(code, Call(request.api.name), now_ms, member_id)
                return
            self._times.answered(now_ms)
        try:
            self._accepted(response)
        except RemoteProtocolError as error:
            self.fail(error)

    def _accepted(self, response: Response) -> None:
        if isinstance(response, JoinGroupResponse):
            self._joined(response)
        elif isinstance(response, SyncGroupResponse) and self.state is MemberState.SYNCING:
            self._synced(decode_assignment(response.assignment))  # else it is from before a `retry`

    def unanswered(self, now_ms: float) -> None:
        """Note that no response will arrive: the coordinator may have performed the request or not."""
        self._in_flight = None
        self.is_coordinator_doubtful = True
        if self.state is MemberState.SYNCING:
            self._move(MemberEvent.SENT_BACK)
        self._times.failed(now_ms)

    def refused_commit(self, code: int, membership: Membership, now_ms: float) -> None:
        """Take the error of a commit: it may say the same as the next heartbeat would."""
        if membership == self._membership and self.state in BEATING and code in MEMBERSHIP_ERRORS:
            self._refused(code, Call.OFFSET_COMMIT, now_ms)

    def _refused(self, code: int, call: Call, now_ms: float, member_id: str = "") -> None:
        action = action_for(code, call)
        if action is Action.FAIL or (action is Action.FAIL_LATER and self._times.is_session_over(now_ms)):
            self.fail(refusal(self.config.group_id, code))
        elif action is Action.TAKE_ID and member_id not in {"", self._membership.member_id}:
            self._membership = self._membership._replace(member_id=member_id)
        elif action is Action.REJOIN:
            self._sent_back(now_ms)
        elif action in {Action.FORGET_GENERATION, Action.FORGET_MEMBER}:
            self._evict(action, f"{Code.of(code).name}: {Code.of(code).text}", now_ms)
        else:
            self.is_coordinator_doubtful |= action is Action.FIND_COORDINATOR
            if self.state is MemberState.SYNCING:
                self._move(MemberEvent.SENT_BACK)
            self._times.failed(now_ms)
            if self._times.is_failure_told:
                text = f"is refused, and tries again: {call.value} is answered {Code.of(code).name}"
                self.notices.append(MemberNotice(WARNING, text))

    def _sent_back(self, now_ms: float) -> None:
        if self.state is MemberState.SYNCING:
            self._move(MemberEvent.SENT_BACK)
        elif self.state is MemberState.JOINING:
            self._times.failed(now_ms)
        else:
            self._wish_to_rejoin("the group rebalances")

    # --- joining

    def _joined(self, response: JoinGroupResponse) -> None:
        self._membership = self._membership._replace(
            member_id=response.member_id, generation=response.generation_id
        )
        self._protocol = response.protocol_name or ""
        self._leadership = Leadership.of(response, self.config.assignors)
        self._plan = {}
        has_to_plan = self._leadership is not None and not response.skip_assignment
        self._move(MemberEvent.LED if has_to_plan else MemberEvent.JOINED)

    def is_plan_late(self, now_ms: float) -> bool:
        """Whether the leader must assign with the counts that it has: its session would end otherwise."""
        return self.is_assigning and now_ms >= self._times.plan_by_ms

    def set_partition_counts(self, topics: frozenset[str], partition_counts: Mapping[str, int]) -> None:
        """Report the partition counts of the leader's topics; a topic without a count does not exist.

        Counts of other `topics`, looked up for an earlier generation, are ignored.
        """
        leadership = self._leadership
        if leadership is None or leadership.topics != topics:
            return
        if self.is_assigning:
            self._plan = leadership.plan(partition_counts)
            self._move(MemberEvent.PLANNED)
        elif self.state in PLANNED and leadership.partition_counts != partition_counts:
            self._wish_to_rejoin("topics or partitions were added or removed")

    def _synced(self, assignment: Assignment) -> None:
        wanted = frozenset(
            topic_partition
            for topic_partition in assignment.partitions
            if topic_partition.topic in self._topics
        )
        if len(wanted) < len(set(assignment.partitions)):
            self._rejoin_reason = "it was given topics that it does not want"
        self._last_assignment = LastAssignment(tuple(sorted(wanted)), self._membership.generation)
        revoked = self.owned - wanted
        if revoked:
            self._rejoin_reason = f"it gave {len(revoked)} partitions back for others to take"
        self._times.synced()
        self._move(MemberEvent.SYNCED)
        self._request_change(revoked=revoked, assigned=wanted - self.owned)

    def _rejoin_if_short(self, now_ms: float) -> None:
        """Join again if withheld partitions were not shared out within a session.

        Normally the member that gives partitions up joins again, and the group assigns them. But a static
        member that dies before that and comes back joins without a new generation, so nobody would get them.
        """
        leadership = self._leadership
        if leadership is not None and leadership.is_short and self._times.has_lasted_a_session(now_ms):
            leadership.is_short = False
            self._wish_to_rejoin("partitions were withheld, and no member joined to share them out")

    # --- leaving a generation

    def _wish_to_rejoin(self, reason: str) -> None:
        if self.state is MemberState.STABLE:
            self._rebalance(reason)
        elif self.state is not MemberState.REVOKING:
            self._rejoin_reason = reason

    def _rebalance(self, reason: str) -> None:
        self._rejoin_reason = ""
        self.notices.append(MemberNotice(INFO, f"joins again: {reason}"))
        self._move(MemberEvent.REBALANCE)
        revoked = self.owned
        if self.config.is_cooperative:
            revoked = frozenset(partition for partition in revoked if partition.topic not in self._topics)
        if revoked:
            self._request_change(revoked=revoked)
        else:
            self._move(MemberEvent.DONE)

    def _evict(self, action: Action, reason: str, now_ms: float) -> None:
        self.notices.append(MemberNotice(WARNING, f"is out of the group: {reason}"))
        member_id = "" if action is Action.FORGET_MEMBER else self._membership.member_id
        self._membership = self._membership._replace(member_id=member_id, generation=NO_GENERATION)
        self._rejoin_reason = ""
        self._leadership = None
        self._times.retry_at_ms = now_ms
        self._is_evicted = True
        self._move(MemberEvent.EVICTED)
        if self.change is None:  # else a change is under way; what the application owns after it is lost
            self._proceed()

    def _leave_if_too_slow(self, now_ms: float) -> MemberRequest | None:
        """A member whose application does not poll leaves the group, so that others get its partitions."""
        took_ms = self._times.too_slow_ms(now_ms) if self._beats else 0.0
        if not took_ms:
            return None
        leaver = self._membership
        self._evict(
            Action.FORGET_MEMBER,
            f"{took_ms:.0f} ms since the last poll, and max.poll.interval.ms is "
            f"{self.config.max_poll_interval_ms}: process less between two polls, or raise it",
            now_ms,
        )
        # A static member stays in the group until its session ends.
        return None if leaver.instance_id is not None else self._requests.leave(leaver)

    def leave(self) -> MemberRequest | None:
        """Leave for good. Return the request to send, or None if the coordinator need not know."""
        leaver = self._membership
        self._move(MemberEvent.LEAVE)
        self._membership = self._membership._replace(generation=NO_GENERATION)
        return self._requests.leave(leaver) if leaver.member_id and leaver.instance_id is None else None

    def fail(self, error: Exception) -> None:
        """End the membership; `failure` is raised in the application."""
        if self.state in ENDS:
            return
        self.failure = error
        self._membership = self._membership._replace(generation=NO_GENERATION)
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
        self.state = advance(TRANSITIONS, self.state, event)

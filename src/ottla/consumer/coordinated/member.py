"""GroupConsumerMember: a member of a classic group as a state machine, without a socket, a thread or a clock.

The thread that owns it (see `group_member`) also reports how many partitions the topics have
(`set_partition_counts`), which a leader needs to assign. `member_state` has the theory and the tables,
`leadership` the work of a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from logging import INFO

from ottla.client.reactions import Action, Call, action_for
from ottla.consumer.coordinated.assignors import LastAssignment
from ottla.consumer.coordinated.group_member import CoordinatedMember
from ottla.consumer.coordinated.leadership import Leadership
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_requests import GroupRequests, MemberRequest, subscriptions
from ottla.consumer.coordinated.member_state import (
    ENDS,
    PLANNED,
    TRANSITIONS,
    MemberEvent,
    MemberNotice,
    MemberState,
    refusal,
)
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


class GroupConsumerMember(CoordinatedMember):
    """A member of a group whose leader assigns."""

    transitions = TRANSITIONS

    def __init__(
        self, config: MemberConfig, topics: Iterable[str] | None, pause_ms: Callable[[int], float]
    ) -> None:
        super().__init__(config, topics, pause_ms)
        self._requests = GroupRequests(
            config.group_id, config.session_timeout_ms, config.max_poll_interval_ms
        )
        self._membership = Membership(instance_id=config.instance_id)
        self._protocol = ""
        self._last_assignment = LastAssignment()
        self._leadership: Leadership | None = None
        self._plan: dict[str, bytes] = {}
        self._rejoin_reason = ""

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

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want these topics from now on; joins again if they differ."""
        wanted = frozenset(topics)
        self._are_topics_known = True
        if wanted != self._topics:
            self._topics = wanted
            self._wish_to_rejoin("its subscription changed")

    def _change_carried_out(self) -> None:
        if self.state is MemberState.STABLE and self._rejoin_reason:
            self._rebalance(self._rejoin_reason)

    # --- the coordinator

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
            # Otherwise it is the answer to a request from before a `retry`.
            self._synced(decode_assignment(response.assignment))

    def _failed(self, now_ms: float) -> None:
        if self.state is MemberState.SYNCING:
            self._move(MemberEvent.SENT_BACK)
        self._times.failed(now_ms)

    def _refused(self, code: int, call: Call, now_ms: float, member_id: str = "") -> None:
        action = action_for(code, call)
        if action is Action.FAIL or (action is Action.FAIL_LATER and self._times.is_session_over(now_ms)):
            self.fail(refusal(self.config.group_id, code))
        elif action is Action.TAKE_ID and member_id not in {"", self._membership.member_id}:
            self._membership = self._membership._replace(member_id=member_id)
        elif action is Action.REJOIN:
            self._sent_back(now_ms)
        elif action in {Action.FORGET_GENERATION, Action.FORGET_MEMBER}:
            reason = f"{Code.of(code).name}: {Code.of(code).text}"
            self._evict(reason, now_ms, is_unknown=action is Action.FORGET_MEMBER)
        else:
            self._try_again(code, action, call.value, now_ms)

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
        """Whether the leader has to assign with the partition counts that it has, before its session ends."""
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
        if self.state is not MemberState.STABLE or leadership is None or not leadership.is_short:
            return
        if self._times.has_lasted_a_session(now_ms):
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

    def _forget_generation(self, *, is_unknown: bool = False) -> None:
        member_id = "" if is_unknown else self._membership.member_id
        self._membership = self._membership._replace(member_id=member_id, generation=NO_GENERATION)
        self._rejoin_reason = ""
        self._leadership = None

    def _leave_request(self, leaver: Membership) -> MemberRequest | None:
        """Return the request to leave; None for a static member, which stays in the group until its session
        ends.
        """
        return self._requests.leave(leaver) if leaver.member_id and leaver.instance_id is None else None

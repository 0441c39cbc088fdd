"""One group as it lives in memory: members, who waits for what, deadlines.

This is the volatile half. The durable half (offsets, stored generations) is in `store`; a `Group` is made
from it by `restored` after a restart, when everybody's session starts anew. `rebalance` and the modules of
the requests decide what happens to a group; this one keeps its facts consistent and answers questions.

Owner: the coordinator, on the broker's loop. Affects: only itself and the turn it is handed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ottla.broker.groups.decision import Caller, Timer, TimerKey, TimerKind, Turn
from ottla.broker.groups.records import GroupValue, MemberValue, Record, group_record
from ottla.broker.groups.state import TRANSITIONS, GroupEvent, GroupState
from ottla.broker.groups.subscription import CONSUMER, subscribed_topics
from ottla.model.error_codes import Code
from ottla.model.errors import RemoteProtocolError
from ottla.wire.api.join_group import JoinGroupMember, JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.sync_group import SyncGroupResponse
from ottla.wire.transitions import advance


@dataclass(slots=True)
class Member:
    """A member, and the requests of it that are parked."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: dict[str, bytes]  # by name, in the order of preference
    assignment: bytes = b""
    joining: Caller | None = None
    syncing: Caller | None = None
    is_new: bool = False

    def matches(self, request: JoinGroupRequest) -> bool:
        """Whether a join brings nothing new."""
        offered = [(protocol.name, protocol.metadata) for protocol in request.protocols]
        return offered == list(self.protocols.items())

    def update(self, request: JoinGroupRequest) -> None:
        """Take over what a join says; a JoinGroup of version 0 has one timeout for both purposes."""
        rebalance_ms = request.rebalance_timeout_ms
        self.rebalance_timeout_ms = request.session_timeout_ms if rebalance_ms < 0 else rebalance_ms
        self.session_timeout_ms = request.session_timeout_ms
        self.protocols = {protocol.name: protocol.metadata for protocol in request.protocols}

    def lives_without_heartbeat(self) -> bool:
        """Whether a parked request stands for the heartbeat; in a first join the client may be gone."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


@dataclass(slots=True, eq=False)
class Group:
    """The members of one group and the phase they are in."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    state_since_ms: int = -1
    generation: int = 0
    protocol_type: str = ""
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    # Ids that were given out by the first step of a two-step join and have not come back.
    pending_joins: set[str] = field(default_factory=set)
    # Members that were told the new generation and have not asked for their assignment.
    pending_syncs: set[str] = field(default_factory=set)
    # The first rebalance of an empty group waits for more members: time left, and whether one came.
    initial_delay_ms: int | None = None
    initial_left_ms: int = 0
    initial_joined: bool = False
    # The generation whose assignment is being stored.
    assigning: int | None = None
    # Joins that replace a static member wait here while another replacement is being stored.
    replacing: bool = False
    deferred: list[tuple[Caller, JoinGroupRequest]] = field(default_factory=list)
    deadlines: dict[TimerKey, int] = field(default_factory=dict)
    armed: dict[TimerKey, int] = field(default_factory=dict)

    @classmethod
    def restored(cls, group_id: str, stored: GroupValue | None) -> Group:
        """The group as it was stored; only offsets are known of a group without a stored generation."""
        if stored is None:
            return cls(group_id)
        protocol = stored.protocol or ""
        members = {one.member_id: _restored_member(one, protocol) for one in stored.members}
        return cls(
            group_id,
            state=GroupState.STABLE if members else GroupState.EMPTY,
            state_since_ms=stored.current_state_timestamp,
            generation=stored.generation,
            protocol_type=stored.protocol_type,
            protocol_name=stored.protocol,
            leader=stored.leader,
            members=members,
        )

    # --- state and time ---

    def move(self, event: GroupEvent, now_ms: int) -> None:
        """Go to the state that the table names."""
        self.state = advance(TRANSITIONS, self.state, event)
        self.state_since_ms = now_ms

    def set_deadline(self, key: TimerKey, delay_ms: int, turn: Turn) -> None:
        """Be called in `delay_ms`. A timer that is due earlier anyway will ask for the rest of the time:
        heartbeats move a deadline many times for each timer that fires."""
        deadline_ms = turn.now_ms + delay_ms
        self.deadlines[key] = deadline_ms
        armed_ms = self.armed.get(key)
        if armed_ms is None or deadline_ms < armed_ms:
            self.armed[key] = deadline_ms
            turn.timers.append(Timer(self.group_id, key, deadline_ms))

    def clear_deadline(self, key: TimerKey) -> None:
        """Forget it; the timer will find nothing to do."""
        self.deadlines.pop(key, None)

    def due(self, timer: Timer, turn: Turn) -> bool:
        """Whether the deadline behind a fired timer is over; if it was moved, set out again."""
        if self.armed.get(timer.key) != timer.at_ms:
            return False
        del self.armed[timer.key]
        deadline_ms = self.deadlines.pop(timer.key, None)
        if deadline_ms is None:
            return False
        if deadline_ms > turn.now_ms:
            self.set_deadline(timer.key, deadline_ms - turn.now_ms, turn)
            return False
        return True

    def start_session(self, member: Member, turn: Turn) -> None:
        """The member has shown life: its session timeout begins again."""
        self.set_deadline(session_key(member.member_id), member.session_timeout_ms, turn)

    # --- members ---

    def static_member(self, instance_id: str) -> Member | None:
        """The member that a static instance has now."""
        return next((one for one in self.members.values() if one.instance_id == instance_id), None)

    def member_error(self, member_id: str, instance_id: str | None) -> Code:
        """Why a request in a member's name must be refused; NONE if it need not."""
        if instance_id is not None:
            current = self.static_member(instance_id)
            if current is None:
                return Code.UNKNOWN_MEMBER_ID
            if current.member_id != member_id:
                return Code.FENCED_INSTANCE_ID
        return Code.NONE if member_id in self.members else Code.UNKNOWN_MEMBER_ID

    def add(self, member: Member, protocol_type: str) -> None:
        """Let a member in; the first one decides the group's type and leads."""
        if not self.members:
            self.protocol_type = protocol_type
        self.pending_joins.discard(member.member_id)
        self.members[member.member_id] = member
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str, turn: Turn) -> None:
        """Forget a member or a pending id; whatever it waits for is answered with UNKNOWN_MEMBER_ID."""
        member = self.members.pop(member_id, None)
        if member is not None:
            answer_join(member, turn, JoinGroupResponse(error_code=Code.UNKNOWN_MEMBER_ID))
            answer_sync(member, turn, SyncGroupResponse(error_code=Code.UNKNOWN_MEMBER_ID))
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        self.clear_deadline(session_key(member_id))

    def all_joined(self) -> bool:
        """Whether the join phase has nobody left to wait for."""
        return not self.pending_joins and all(one.joining is not None for one in self.members.values())

    def rebalance_timeout_ms(self) -> int:
        """The time that the slowest member asks for."""
        return max((one.rebalance_timeout_ms for one in self.members.values()), default=0)

    # --- protocols ---

    def supports(self, protocol_type: str, names: list[str]) -> bool:
        """Whether somebody with these protocols fits in."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and any(name in self._common(names) for name in names)

    def chosen_protocol(self) -> str:
        """The protocol with most votes among those that all know; a tie goes to the older member's choice."""
        common = self._common([name for one in self.members.values() for name in one.protocols])
        votes = Counter(
            next(name for name in one.protocols if name in common) for one in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def _common(self, names: list[str]) -> set[str]:
        return {name for name in names if all(name in one.protocols for one in self.members.values())}

    def subscribed_to(self, topic: str) -> bool:
        """Whether offsets of a topic are in use; without knowledge, all of a consumer group's are."""
        if self.protocol_type != CONSUMER:
            return False
        if self.protocol_name is None:
            return bool(self.members)
        try:
            return any(
                topic in subscribed_topics(one.protocols.get(self.protocol_name, b""))
                for one in self.members.values()
            )
        except RemoteProtocolError:
            return True

    # --- what others are told ---

    def joined(self, member: Member, *, skip_assignment: bool = False) -> JoinGroupResponse:
        """The answer to a join of the present generation; the leader also gets what it needs to assign."""
        leads = member.member_id == self.leader
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader or "",
            member_id=member.member_id,
            skip_assignment=skip_assignment,
            members=self.subscriptions() if leads else [],
        )

    def synced(self, member: Member) -> SyncGroupResponse:
        """A member's assignment."""
        return SyncGroupResponse(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def subscriptions(self) -> list[JoinGroupMember]:
        """What each member said for the chosen protocol."""
        return [
            JoinGroupMember(
                member_id=one.member_id,
                group_instance_id=one.instance_id,
                metadata=one.protocols.get(self.protocol_name or "", b""),
            )
            for one in self.members.values()
        ]

    def record(self, assignments: dict[str, bytes]) -> Record:
        """The present generation, to be stored."""
        members = [self._stored_member(one, assignments) for one in self.members.values()]
        stored = GroupValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=self.state_since_ms,
            members=members,
        )
        return group_record(self.group_id, stored)

    def _stored_member(self, member: Member, assignments: dict[str, bytes]) -> MemberValue:
        return MemberValue(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.protocols.get(self.protocol_name or "", b""),
            assignment=assignments.get(member.member_id, b""),
        )


def session_key(member_id: str) -> TimerKey:
    """Names the deadline of a member's session."""
    return TimerKey(TimerKind.SESSION, member_id)


def answer_join(member: Member, turn: Turn, response: JoinGroupResponse) -> None:
    """Complete a parked join, if there is one."""
    if member.joining is not None:
        turn.reply(member.joining, response)
        member.joining = None


def answer_sync(member: Member, turn: Turn, response: SyncGroupResponse) -> None:
    """Complete a parked sync, if there is one."""
    if member.syncing is not None:
        turn.reply(member.syncing, response)
        member.syncing = None


def _restored_member(stored: MemberValue, protocol: str) -> Member:
    # Before version 1 of the record, one timeout served both purposes.
    rebalance_ms = stored.session_timeout if stored.rebalance_timeout < 0 else stored.rebalance_timeout
    return Member(
        stored.member_id,
        stored.group_instance_id,
        stored.client_id,
        stored.client_host,
        rebalance_ms,
        stored.session_timeout,
        {protocol: stored.subscription},
        stored.assignment,
    )

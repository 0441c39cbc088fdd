"""One group in memory: its members, their parked requests, and deadlines.

This is the volatile state. The durable state (offsets, stored generations) is in `store`; after a restart
`CoordinatedGroup.restored` makes a group from it, with sessions that start anew. `rebalance`, `joining`,
`membership` and `offsets` decide what happens to a group; this module keeps its data consistent.

Owner: the coordinator, on the broker's loop. Its methods change only the group and the step that they get.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ottla.broker.coordination.effects import Caller, Record
from ottla.broker.groups.coordinator.deadlines import TimedGroup, session_key
from ottla.broker.groups.coordinator.decision import CoordinatorStep
from ottla.broker.groups.coordinator.records import GroupValue, MemberValue, group_record
from ottla.broker.groups.coordinator.state import TRANSITIONS, GroupEvent, GroupState
from ottla.model.error_codes import Code
from ottla.model.errors import RemoteProtocolError
from ottla.wire.api.join_group import JoinGroupMember, JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.sync_group import SyncGroupResponse
from ottla.wire.consumer_protocol import CONSUMER, subscribed_topics
from ottla.wire.transitions import advance


@dataclass(slots=True)
class CoordinatorMember:
    """A member, and its parked requests."""

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
        """Whether a join offers the same protocols as before."""
        offered = [(protocol.name, protocol.metadata) for protocol in request.protocols]
        return offered == list(self.protocols.items())

    def update(self, request: JoinGroupRequest) -> None:
        """Use the timeouts and protocols of a join; JoinGroup version 0 has one timeout for both purposes."""
        rebalance_ms = request.rebalance_timeout_ms
        self.rebalance_timeout_ms = request.session_timeout_ms if rebalance_ms < 0 else rebalance_ms
        self.session_timeout_ms = request.session_timeout_ms
        self.protocols = {protocol.name: protocol.metadata for protocol in request.protocols}

    def lives_without_heartbeat(self) -> bool:
        """Whether a parked request counts as a heartbeat. A first join does not: its client may be gone."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


@dataclass(slots=True, eq=False)
class CoordinatedGroup(TimedGroup):
    """The members of one group, and the phase that they are in."""

    state: GroupState = GroupState.EMPTY
    state_since_ms: int = -1
    generation: int = 0
    protocol_type: str = ""
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, CoordinatorMember] = field(default_factory=dict)
    # Ids given out by the first step of a two-step join whose second step has not arrived.
    pending_joins: set[str] = field(default_factory=set)
    # Members that know the new generation and have not sent SyncGroup.
    pending_syncs: set[str] = field(default_factory=set)
    # The first rebalance of an empty group waits for more members: time left, and whether one joined.
    initial_delay_ms: int | None = None
    initial_left_ms: int = 0
    initial_joined: bool = False
    # The generation whose assignment is being stored.
    assigning: int | None = None
    # Joins that replace a static member wait here while another replacement is being stored.
    replacing: bool = False
    deferred: list[tuple[Caller, JoinGroupRequest]] = field(default_factory=list)

    @classmethod
    def restored(cls, group_id: str, stored: GroupValue | None) -> CoordinatedGroup:
        """Return the group as it was stored. Without a stored generation it has offsets, but no members."""
        if stored is None:
            return cls(group_id)
        protocol = stored.protocol or ""
        members = {value.member_id: _restored_member(value, protocol) for value in stored.members}
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
        """Change to the state that the table has for an event."""
        self.state = advance(TRANSITIONS, self.state, event)
        self.state_since_ms = now_ms

    def start_session(self, member: CoordinatorMember, step: CoordinatorStep) -> None:
        """Start a member's session timeout again, after a sign of life."""
        self.set_deadline(session_key(member.member_id), member.session_timeout_ms, step)

    # --- members ---

    @property
    def metadata_bytes(self) -> int:
        """Bytes of metadata and assignments of all members."""
        members = self.members.values()
        return sum(len(item.assignment) + sum(map(len, item.protocols.values())) for item in members)

    def static_member(self, instance_id: str) -> CoordinatorMember | None:
        """Return the member of a static instance, or None."""
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def member_error(self, member_id: str, instance_id: str | None) -> Code:
        """Return why a request in a member's name must be refused, or NONE."""
        if instance_id is not None:
            current = self.static_member(instance_id)
            if current is None:
                return Code.UNKNOWN_MEMBER_ID
            if current.member_id != member_id:
                return Code.FENCED_INSTANCE_ID
        return Code.NONE if member_id in self.members else Code.UNKNOWN_MEMBER_ID

    def add(self, member: CoordinatorMember, protocol_type: str) -> None:
        """Add a member; the first one decides the group's type and leads."""
        if not self.members:
            self.protocol_type = protocol_type
        self.pending_joins.discard(member.member_id)
        self.members[member.member_id] = member
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str, step: CoordinatorStep) -> None:
        """Remove a member or a pending id; its parked requests are answered with UNKNOWN_MEMBER_ID."""
        member = self.members.pop(member_id, None)
        if member is not None:
            answer_join(member, step, JoinGroupResponse(error_code=Code.UNKNOWN_MEMBER_ID))
            answer_sync(member, step, SyncGroupResponse(error_code=Code.UNKNOWN_MEMBER_ID))
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        self.clear_deadline(session_key(member_id))

    def all_joined(self) -> bool:
        """Whether the join phase waits for no member any more."""
        members = self.members.values()
        return not self.pending_joins and all(member.joining is not None for member in members)

    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # --- protocols ---

    def supports(self, protocol_type: str, names: list[str]) -> bool:
        """Whether a member with these protocols can join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and any(name in self._common(names) for name in names)

    def chosen_protocol(self) -> str:
        """Return the protocol with most votes that all members support; a tie goes to the oldest member."""
        members = self.members.values()
        common = self._common([name for member in members for name in member.protocols])
        votes = Counter(next(name for name in member.protocols if name in common) for member in members)
        return votes.most_common(1)[0][0]

    def _common(self, names: list[str]) -> set[str]:
        members = self.members.values()
        return {name for name in names if all(name in member.protocols for member in members)}

    def subscribed_to(self, topic: str) -> bool:
        """Whether a consumer group uses offsets of a topic. If subscriptions cannot be read, it uses all."""
        if self.protocol_type != CONSUMER:
            return False
        if self.protocol_name is None:
            return bool(self.members)
        try:
            return any(
                topic in subscribed_topics(member.protocols.get(self.protocol_name, b""))
                for member in self.members.values()
            )
        except RemoteProtocolError:
            return True

    # --- answers and records ---

    def joined(self, member: CoordinatorMember, *, skip_assignment: bool = False) -> JoinGroupResponse:
        """Return the answer to a join of the present generation; the leader also gets all subscriptions."""
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

    def synced(self, member: CoordinatorMember) -> SyncGroupResponse:
        """Return the answer that carries a member's assignment."""
        return SyncGroupResponse(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def subscriptions(self) -> list[JoinGroupMember]:
        """Return each member's subscription in the chosen protocol."""
        return [
            JoinGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.protocols.get(self.protocol_name or "", b""),
            )
            for member in self.members.values()
        ]

    def record(self, assignments: dict[str, bytes]) -> Record:
        """Return the record that stores the present generation."""
        members = [self._stored_member(member, assignments) for member in self.members.values()]
        stored = GroupValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=self.state_since_ms,
            members=members,
        )
        return group_record(self.group_id, stored)

    def _stored_member(self, member: CoordinatorMember, assignments: dict[str, bytes]) -> MemberValue:
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


def answer_join(member: CoordinatorMember, step: CoordinatorStep, response: JoinGroupResponse) -> None:
    """Answer a parked join, if there is one."""
    if member.joining is not None:
        step.reply(member.joining, response)
        member.joining = None


def answer_sync(member: CoordinatorMember, step: CoordinatorStep, response: SyncGroupResponse) -> None:
    """Answer a parked sync, if there is one."""
    if member.syncing is not None:
        step.reply(member.syncing, response)
        member.syncing = None


def _restored_member(stored: MemberValue, protocol: str) -> CoordinatorMember:
    # Before version 1 of the record, one timeout served both purposes.
    rebalance_ms = stored.session_timeout if stored.rebalance_timeout < 0 else stored.rebalance_timeout
    return CoordinatorMember(
        stored.member_id,
        stored.group_instance_id,
        stored.client_id,
        stored.client_host,
        rebalance_ms,
        stored.session_timeout,
        {protocol: stored.subscription},
        stored.assignment,
    )

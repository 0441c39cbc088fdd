"""What a member asks its coordinator: requests as values, with how long an answer may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.offsets.coordinator_messages import Membership
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest, LeavingMember
from ottla.wire.api.sync_group import SyncGroupAssignment, SyncGroupRequest
from ottla.wire.schema import Api, Request

PROTOCOL_TYPE = "consumer"

_GRACE_MS = 5_000.0
"""How much later than the end of a rebalance its answer may come."""

_MANY_LEAVE_SINCE = 3


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that is made for the version in which it goes out. `timeout_ms` None is the usual."""

    api: Api
    request: Callable[[int], Request[Any]]
    timeout_ms: float | None = None


class GroupRequests:
    """Requests of one group's members."""

    def __init__(self, group_id: str, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        self._group_id = group_id
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._patience_ms = max(session_timeout_ms, rebalance_timeout_ms) + _GRACE_MS

    def join(self, membership: Membership, offered: Mapping[str, bytes]) -> Ask:
        """Enter the next generation; the answer comes when it is complete."""
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=membership.member_id,
            group_instance_id=membership.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupProtocol(name=name, metadata=data) for name, data in offered.items()],
        )
        return Ask(request.API, lambda _: request, self._patience_ms)

    def sync(self, membership: Membership, protocol: str, plan: Mapping[str, bytes]) -> Ask:
        """Ask for the own part, and as the leader bring everybody's."""
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=membership.generation,
            member_id=membership.member_id,
            group_instance_id=membership.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocol,
            assignments=[SyncGroupAssignment(member_id=one, assignment=data) for one, data in plan.items()],
        )
        return Ask(request.API, lambda _: request, self._patience_ms)

    def heartbeat(self, membership: Membership, timeout_ms: float) -> Ask:
        """Say that the member lives."""
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=membership.generation,
            member_id=membership.member_id,
            group_instance_id=membership.instance_id,
        )
        return Ask(request.API, lambda _: request, timeout_ms)

    def leave(self, membership: Membership) -> Ask:
        """Go, so that the group need not wait for the session's end."""

        def request(version: int) -> LeaveGroupRequest:
            if version < _MANY_LEAVE_SINCE:
                return LeaveGroupRequest(group_id=self._group_id, member_id=membership.member_id)
            leaving = LeavingMember(member_id=membership.member_id, group_instance_id=membership.instance_id)
            return LeaveGroupRequest(group_id=self._group_id, members=[leaving])

        return Ask(LeaveGroupRequest.API, request)

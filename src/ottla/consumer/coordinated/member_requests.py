"""The requests of a group member to its coordinator, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.consumer.coordinated.assignors import LastAssignment
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.coordinator_messages import Membership
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest, LeavingMember
from ottla.wire.api.sync_group import SyncGroupAssignment, SyncGroupRequest
from ottla.wire.consumer_protocol import CONSUMER, Subscription, encode_subscription
from ottla.wire.schema import Api, Request

_GRACE_MS = 5_000.0
"""How long after the end of a rebalance its answer may arrive."""

_MANY_LEAVE_SINCE = 3


@dataclass(frozen=True, slots=True)
class MemberRequest:
    """A request to the coordinator. `build(version)` makes it for the version that the connection uses.

    `timeout_ms` None means request.timeout.ms. `kept_ms`: the answer may have to wait for other members.
    """

    api: Api
    build: Callable[[int], Request[Any]]
    timeout_ms: float | None = None
    kept_ms: float = 0.0


def subscriptions(
    config: MemberConfig,
    topics: Iterable[str],
    owned: Iterable[TopicAndPartition],
    last: LastAssignment,
    generation: int,
) -> dict[str, bytes]:
    """The encoded subscription for each assignor. A member that gave everything back owns nothing."""
    return {
        assignor.name: encode_subscription(
            Subscription(tuple(topics), assignor.user_data(last), tuple(owned), generation, config.rack)
        )
        for assignor in config.assignors
    }


class GroupRequests:
    """Makes the requests of one group's member."""

    def __init__(self, group_id: str, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        self._group_id = group_id
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._rebalance_ms = float(max(session_timeout_ms, rebalance_timeout_ms))

    def join(self, membership: Membership, subscriptions: Mapping[str, bytes]) -> MemberRequest:
        """Join the next generation; the answer arrives when the generation is complete.

        `subscriptions` has the encoded subscription for each assignor, by the assignor's name.
        """
        protocols = [JoinGroupProtocol(name=name, metadata=data) for name, data in subscriptions.items()]
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=membership.member_id,
            group_instance_id=membership.instance_id,
            protocol_type=CONSUMER,
            protocols=protocols,
        )
        return self._for_all_members(request)

    def sync(self, membership: Membership, protocol: str, plan: Mapping[str, bytes]) -> MemberRequest:
        """Ask for this member's assignment. The leader sends the `plan`: all assignments by member id."""
        assignments = [SyncGroupAssignment(member_id=name, assignment=data) for name, data in plan.items()]
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=membership.generation,
            member_id=membership.member_id,
            group_instance_id=membership.instance_id,
            protocol_type=CONSUMER,
            protocol_name=protocol,
            assignments=assignments,
        )
        return self._for_all_members(request)

    def _for_all_members(self, request: JoinGroupRequest | SyncGroupRequest) -> MemberRequest:
        rebalance_ms = self._rebalance_ms
        return MemberRequest(request.API, lambda _: request, rebalance_ms + _GRACE_MS, kept_ms=rebalance_ms)

    def heartbeat(self, membership: Membership, timeout_ms: float) -> MemberRequest:
        """Tell the coordinator that the member is alive."""
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=membership.generation,
            member_id=membership.member_id,
            group_instance_id=membership.instance_id,
        )
        return MemberRequest(request.API, lambda _: request, timeout_ms)

    def leave(self, membership: Membership) -> MemberRequest:
        """Leave the group, so that it does not have to wait for the end of the session."""

        def build(version: int) -> LeaveGroupRequest:
            if version < _MANY_LEAVE_SINCE:
                return LeaveGroupRequest(group_id=self._group_id, member_id=membership.member_id)
            leaving = LeavingMember(member_id=membership.member_id, group_instance_id=membership.instance_id)
            return LeaveGroupRequest(group_id=self._group_id, members=[leaving])

        return MemberRequest(LeaveGroupRequest.API, build)

"""The requests of a group member to its coordinator, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.consumer.coordinated.assignors import LastAssignment
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.coordinator_messages import Membership
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, HeartbeatTopicPartitions
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest, LeavingMember
from ottla.wire.api.sync_group import SyncGroupAssignment, SyncGroupRequest
from ottla.wire.consumer_protocol import CONSUMER, Subscription, encode_subscription
from ottla.wire.schema import Api, Request

_GRACE_MS = 5_000.0
"""How long after the end of the rebalance timeout an answer may arrive."""

_MANY_LEAVE_SINCE = 3

JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH = 0, -1, -2
"""Numbers that heartbeats of consumer groups send instead of an epoch: to join, to leave, and to leave as a
static member.
"""


@dataclass(frozen=True, slots=True)
class MemberRequest:
    """A request to the coordinator. `build(version)` makes it for the version that the connection uses.

    `timeout_ms` None means request.timeout.ms. `kept_ms`: how long the coordinator may hold the answer back,
    because it waits for other members.
    """

    api: Api
    build: Callable[[int], Request[Any]]
    timeout_ms: float | None = None
    kept_ms: float = 0.0
    is_leave: bool = False


def subscriptions(
    config: MemberConfig,
    topics: Iterable[str],
    owned: Iterable[TopicAndPartition],
    last: LastAssignment,
    generation: int,
) -> dict[str, bytes]:
    """Return the encoded subscription for each assignor. A member that gave everything back owns nothing."""
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

        return MemberRequest(LeaveGroupRequest.API, build, is_leave=True)


class ConsumerGroupRequests:
    """Makes the requests of a member of a consumer group (KIP-848). All of them are heartbeats."""

    def __init__(self, config: MemberConfig, member_id: str) -> None:
        self._config = config
        self._member_id = member_id

    def join(self, topics: Iterable[str]) -> MemberRequest:
        """Join the group, without any partitions."""
        return self.heartbeat(JOINING_EPOCH, topics=topics, owned={}, is_full=True)

    def heartbeat(
        self,
        epoch: int,
        *,
        topics: Iterable[str] | None,
        owned: Mapping[bytes, Iterable[int]] | None,
        is_full: bool,
    ) -> MemberRequest:
        """Tell the coordinator that the member is alive, and what has changed; everything if `is_full`, after
        an error.
        """
        config = self._config
        rows = None if owned is None else owned.items()
        request = ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=config.instance_id,
            rack_id=config.rack if is_full else None,
            rebalance_timeout_ms=config.max_poll_interval_ms if is_full else -1,
            subscribed_topic_names=None if topics is None else sorted(topics),
            server_assignor=config.remote_assignor if is_full else None,
            topic_partitions=None
            if rows is None
            else [HeartbeatTopicPartitions(topic_id=key, partitions=list(numbers)) for key, numbers in rows],
        )
        return MemberRequest(request.API, lambda _: request)

    def leave(self) -> MemberRequest:
        """Leave the group. A static member announces that it will be back."""
        instance_id = self._config.instance_id
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._config.group_id,
            member_id=self._member_id,
            member_epoch=LEAVING_EPOCH if instance_id is None else STATIC_LEAVING_EPOCH,
            instance_id=instance_id,
        )
        return MemberRequest(request.API, lambda _: request, is_leave=True)

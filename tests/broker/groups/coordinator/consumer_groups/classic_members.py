"""Members of the classic protocol for tests of the coordinator of consumer groups."""

from __future__ import annotations

from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.sync_group import SyncGroupAssignment, SyncGroupRequest
from ottla.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from tests.broker.groups.coordinator.driver import Loop


class ClassicMember:
    """A cooperative member of the classic protocol, which leads a classic group if it must."""

    def __init__(self, loop: Loop, instance_id: str | None = None) -> None:
        self.loop = loop
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.owned: tuple[TopicAndPartition, ...] = ()

    def request(self) -> JoinGroupRequest:
        metadata = encode_subscription(Subscription(("t",), owned=self.owned, generation=self.generation))
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupProtocol(name="cooperative-sticky", metadata=metadata)],
        )

    def join(self) -> int:
        """Send a join, and return its ticket."""
        ticket = self.loop.send(self.request())
        response = self.loop.replies.get(ticket)
        if isinstance(response, JoinGroupResponse) and response.error_code == Code.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            ticket = self.loop.send(self.request())
        return ticket

    def joined(self, ticket: int) -> JoinGroupResponse:
        response = self.loop.join_reply(ticket)
        if not response.error_code:
            self.member_id, self.generation = response.member_id, response.generation_id
        return response

    def sync(self, assignments: dict[str, list[int]] | None = None) -> int:
        """Send a sync; the leader's has the assignments of all."""
        given = [
            SyncGroupAssignment(
                member_id=member_id,
                assignment=encode_assignment(Assignment(tuple(TopicAndPartition("t", n) for n in numbers))),
            )
            for member_id, numbers in (assignments or {}).items()
        ]
        return self.loop.send(
            SyncGroupRequest(
                group_id="g",
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                assignments=given,
            )
        )

    def synced(self, ticket: int) -> int:
        response = self.loop.sync_reply(ticket)
        if not response.error_code:
            self.owned = decode_assignment(response.assignment).partitions
        return response.error_code

    def beat(self) -> int:
        request = HeartbeatRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return self.loop.call(request).error_code

    def follow(self) -> None:
        """Do what the coordinator of a consumer group wants until it wants nothing more."""
        while self.beat() == Code.REBALANCE_IN_PROGRESS:
            assert self.joined(self.join()).error_code == Code.NONE
            assert self.synced(self.sync()) == Code.NONE

    @property
    def numbers(self) -> list[int]:
        return sorted(item.partition for item in self.owned)


def stable_classic_group(loop: Loop, *instance_ids: str) -> list[ClassicMember]:
    loop.topics.put("t", 4)
    members = [ClassicMember(loop, instance_id) for instance_id in instance_ids or (None, None)]
    tickets = [member.join() for member in members]
    loop.advance(10_000)
    for member, ticket in zip(members, tickets, strict=True):
        assert member.joined(ticket).error_code == Code.NONE
    shares = {members[0].member_id: [0, 1], members[1].member_id: [2, 3]}
    leader = loop.join_reply(tickets[0]).leader
    syncs = [member.sync(shares if member.member_id == leader else None) for member in members]
    for member, ticket in zip(members, syncs, strict=True):
        assert member.synced(ticket) == Code.NONE
    return members

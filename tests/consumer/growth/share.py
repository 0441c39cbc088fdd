"""Share groups: `ShareMember` and the broker's `ShareGroup`."""

from __future__ import annotations

from ottla.broker.serving.share_acknowledging import by_topic
from ottla.broker.share_groups.core.group import LEAVE_EPOCH, Joining, ShareGroup, TopicInfo
from ottla.consumer.share.share_member import ShareMember
from ottla.wire.api.share_group_heartbeat import (
    ShareAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareTopicPartitions,
)
from tests.consumer.growth.timeline import TOPIC, Group, Timeline, message_bytes

INTERVAL_MS, SESSION_MS, ASSIGNMENT_MS = 5_000, 45_000, 1_000
TOPIC_ID = b"t".ljust(16, b"\0")
VERSION = 1
NO_LIMIT = 2**31 - 1


class ShareGroupOfMembers(Group):
    """Members have no limit here; Kafka's default is 200 (group.share.max.size)."""

    def __init__(self, timeline: Timeline, partitions: int) -> None:
        super().__init__(timeline, partitions)
        self.group = ShareGroup("g")
        self.topics = {TOPIC: TopicInfo(TOPIC_ID, partitions)}
        self.members: dict[str, ShareMember] = {}
        self._behind: set[str] = set()
        self._names = 0

    def join(self) -> None:
        self._names += 1
        member = ShareMember("g", f"member-{self._names:06}", (TOPIC,))
        self.members[member.member_id] = member
        self._beat(member)

    def leave(self) -> None:
        member = self.members.pop(self.timeline.random.choice(sorted(self.members)))
        self._send(member, member.leaving())

    def is_settled(self) -> bool:
        return not self._behind and self.group.members.keys() == self.members.keys()

    def _beat(self, member: ShareMember) -> None:
        if member.member_id in self.members:
            self._send(member, member.request())

    def _send(self, member: ShareMember, request: ShareGroupHeartbeatRequest) -> None:
        self.timeline.traffic.operations += 1
        self.timeline.traffic.bytes += message_bytes(request, VERSION)
        self.timeline.travel(lambda: self._arrive(member, request))

    def _arrive(self, member: ShareMember, request: ShareGroupHeartbeatRequest) -> None:
        epoch = self.group.epoch
        response = self._answer(request)
        if self.group.epoch != epoch:
            self._behind = set(self.group.members)
        self.timeline.traffic.bytes += message_bytes(response, VERSION)
        self.timeline.travel(lambda: self._answered(member, request, response))

    def _answered(
        self, member: ShareMember, sent: ShareGroupHeartbeatRequest, response: ShareGroupHeartbeatResponse
    ) -> None:
        if member.member_id in self.members:
            pause_ms = member.answered(response, sent)
            if member.epoch == self.group.epoch:
                self._behind.discard(member.member_id)
            self.timeline.at(self.timeline.now_ms + pause_ms, lambda: self._beat(member))

    def _answer(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        """As the handler of ShareGroupHeartbeat does it."""
        member_id, names = request.member_id, request.subscribed_topic_names
        if request.member_epoch == LEAVE_EPOCH:
            self.group.leave(member_id)
            self._rebalance()
            return ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=LEAVE_EPOCH)
        topics = None if names is None else tuple(names)
        said = Joining(member_id, request.member_epoch, topics, None, "c", "/127.0.0.1")
        member, is_told = self.group.heartbeat(said, int(self.timeline.now_ms) + SESSION_MS, NO_LIMIT)
        self._rebalance()
        called_ms = self.group.wait_ms(int(self.timeline.now_ms), ASSIGNMENT_MS)
        response = ShareGroupHeartbeatResponse(
            member_id=member_id, member_epoch=member.epoch, heartbeat_interval_ms=called_ms or INTERVAL_MS
        )
        if self.group.catch_up(member) or is_told:
            assigned = by_topic(sorted(self.group.assigned(member_id, self.topics.get)))
            rows = [
                ShareTopicPartitions(topic_id=key, partitions=numbers) for key, numbers in assigned.items()
            ]
            response.member_epoch = member.epoch
            response.assignment = ShareAssignment(topic_partitions=rows)
        return response

    def _rebalance(self) -> None:
        self.group.rebalance(self.topics.get, int(self.timeline.now_ms), ASSIGNMENT_MS)

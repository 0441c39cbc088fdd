"""A member of a share group: its next heartbeat, and its reaction to the answer. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

LEAVE_EPOCH = -1
RETRY_MS = 100.0

_JOINS_AGAIN = (Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH)
_FINDS_COORDINATOR = (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE)

TopicIdPartition = tuple[bytes, int]


@dataclass(slots=True)
class ShareMember:
    """Used by the heartbeat thread, under its lock. `assigned` is None until the first assignment."""

    group_id: str
    member_id: str
    topics: tuple[str, ...]
    rack: str | None = None
    epoch: int = 0
    assigned: frozenset[TopicIdPartition] | None = None
    failure: KafkaError | None = None
    is_coordinator_doubtful: bool = False
    is_changed: bool = True  # the subscription has changed since it was sent

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Want other topics from now on."""
        self.topics, self.is_changed = topics, True

    def request(self) -> ShareGroupHeartbeatRequest:
        """Return the next heartbeat. With epoch 0 it joins the group."""
        says_all = self.epoch == 0 or self.is_changed
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rack_id=self.rack if self.epoch == 0 else None,
            subscribed_topic_names=list(self.topics) if says_all else None,
        )

    def leaving(self) -> ShareGroupHeartbeatRequest:
        """Return the heartbeat that leaves the group."""
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH
        )

    def answered(self, response: ShareGroupHeartbeatResponse, sent: ShareGroupHeartbeatRequest) -> float:
        """Process an answer, and return after how many milliseconds the next heartbeat is due."""
        code = Code.of(response.error_code)
        if code:
            self._refused(code)
            return RETRY_MS
        self.epoch = response.member_epoch
        if sent.subscribed_topic_names == list(self.topics):
            self.is_changed = False
        if response.assignment is not None:
            self.assigned = frozenset(
                (topic.topic_id, index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            )
        return RETRY_MS if self.is_changed else max(float(response.heartbeat_interval_ms), RETRY_MS)

    def _refused(self, code: Code) -> None:
        if code in _JOINS_AGAIN:
            self.epoch = 0
        elif code in _FINDS_COORDINATOR:
            self.is_coordinator_doubtful = True
        elif not code.retriable:
            self.failure = KafkaError(code, f"group {self.group_id!r}")

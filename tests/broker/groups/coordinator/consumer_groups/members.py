"""Members of consumer groups for tests of the coordinator: they do what they are told, one call at a time."""

from __future__ import annotations

from ottla.broker.groups.coordinator import GroupConfig
from ottla.model.error_codes import Code
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedConsumerGroup
from ottla.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from tests.broker.groups.coordinator.driver import Loop

REBALANCE_TIMEOUT_MS = 30_000
AT_ONCE = GroupConfig(consumer_assignment_interval_ms=0)
"""Every change has its own target assignment."""


class Member:
    """A member that has what the broker last told it, unless a test keeps it from giving up partitions."""

    def __init__(self, loop: Loop, member_id: str, topics: list[str] | None = None, **fields: object) -> None:
        self.loop = loop
        self.member_id = member_id
        self.topics = topics
        self.fields = fields
        self.epoch = 0
        self.owned: set[tuple[bytes, int]] = set()
        self.told: set[tuple[bytes, int]] = set()

    def ask(self, **fields: object) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat with these fields only."""
        given = {"group_id": "g", "member_id": self.member_id, "member_epoch": self.epoch} | fields
        return self.loop.call(ConsumerGroupHeartbeatRequest(**given))  # type: ignore[arg-type]

    def join(self, **fields: object) -> ConsumerGroupHeartbeatResponse:
        self.epoch, self.owned = 0, set()
        response = self.ask(
            **{
                "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
                "subscribed_topic_names": self.topics,
                "topic_partitions": [],
                **self.fields,
                **fields,
            }
        )
        return self.take(response)

    def beat(self, *, keep: bool = False, **fields: object) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat. First take and give up what it was told, unless it keeps what it has."""
        if not keep:
            self.owned = set(self.told)
        instance = {name: self.fields[name] for name in ("instance_id",) if name in self.fields}
        return self.take(self.ask(topic_partitions=rows(self.owned), **instance, **fields))

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        instance = {name: self.fields[name] for name in ("instance_id",) if name in self.fields}
        return self.ask(member_epoch=epoch, **instance)

    def take(self, response: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        """The answer reaches the member."""
        if not response.error_code:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                rows = response.assignment.topic_partitions
                self.told = {(row.topic_id, number) for row in rows for number in row.partitions}
        return response

    @property
    def numbers(self) -> list[int]:
        """The numbers of the partitions that the broker has given it."""
        return sorted(number for _, number in self.told)


def rows(owned: set[tuple[bytes, int]]) -> list[HeartbeatTopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(owned):
        topics.setdefault(topic_id, []).append(number)
    return [HeartbeatTopicPartitions(topic_id=key, partitions=numbers) for key, numbers in topics.items()]


def settle(*members: Member) -> None:
    """Let members beat until none is told anything new."""
    for _ in range(20):
        before = [(member.epoch, member.numbers) for member in members]
        for member in members:
            assert member.beat().error_code == Code.NONE
        if before == [(member.epoch, member.numbers) for member in members]:
            return
    raise AssertionError("the group does not settle")


def described(loop: Loop, group_id: str = "g") -> DescribedConsumerGroup:
    return loop.call(ConsumerGroupDescribeRequest(group_ids=[group_id])).groups[0]

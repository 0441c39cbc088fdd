"""Members of one group as connections of the load generator: they join, send heartbeats and commit offsets.

A group is classic (the first member assigns) or a consumer group of KIP-848 (the broker assigns).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from benchmarks.broker.lines import Line
from benchmarks.broker.load import TIMEOUT_S, Address
from ottla.model.closing import Closing
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, HeartbeatTopicPartitions
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.sync_group import SyncGroupAssignment, SyncGroupRequest
from ottla.wire.consumer_protocol import (
    CONSUMER,
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)

SESSION_MS, REBALANCE_MS = 45_000, 300_000  # the defaults of Kafka's consumer
PAUSE_S = 0.02
COORDINATOR_VERSION, COMMIT_VERSION = 2, 9
ASSIGNOR = "range"
_POLL_S = 0.05


@dataclass
class Member:
    """A connection, and what its member knows of the group."""

    line: Line
    member_id: str = ""
    epoch: int = 0
    partitions: list[int] = field(default_factory=list)


class Members(Closing, ABC):
    """`count` members, which together subscribe to all partitions of a topic."""

    heartbeat_version: ClassVar[int]

    def __init__(self, address: Address, group_id: str, topic: str, count: int, partitions_each: int) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partitions_each = partitions_each
        self.members = [Member(Line(address)) for _ in range(count)]
        _wait_for_coordinator(self.members[0].line, group_id)

    @abstractmethod
    def join(self) -> None:
        """Have all join, until each has its partitions."""

    @abstractmethod
    def heartbeat(self, member: Member) -> Any:
        """The request of a member that has nothing new to say."""

    def commit(self, member: Member) -> OffsetCommitRequest:
        """The request that commits an offset of each of a member's partitions."""
        offsets = [
            OffsetCommitPartition(partition_index=index, committed_offset=0, committed_metadata="")
            for index in member.partitions
        ]
        return OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=member.epoch,
            member_id=member.member_id,
            topics=[OffsetCommitTopic(name=self.topic, partitions=offsets)],
        )

    def close(self) -> None:
        """Hang up."""
        for member in self.members:
            member.line.close()

    def _all_ask(self, requests: list[Any], version: int) -> list[Any]:
        """The answers to a request of each member, all of which are sent first."""
        for member, request in zip(self.members, requests, strict=True):
            member.line.send(request, version)
        return [member.line.receive() for member in self.members]


class ClassicMembers(Members):
    """The first member to join assigns."""

    heartbeat_version = 2
    _join_version = 3
    _sync_version = 2

    def join(self) -> None:
        """Join and synchronize, again if a generation did not have all."""
        deadline = time.monotonic() + TIMEOUT_S
        while not (self._joined() and self._synchronized()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.members)} members have no generation in common")

    def heartbeat(self, member: Member) -> HeartbeatRequest:
        """A heartbeat of the member's generation."""
        return HeartbeatRequest(
            group_id=self.group_id, generation_id=member.epoch, member_id=member.member_id
        )

    def _joined(self) -> bool:
        metadata = encode_subscription(Subscription((self.topic,)))
        requests = [
            JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=member.member_id,
                protocol_type=CONSUMER,
                protocols=[JoinGroupProtocol(name=ASSIGNOR, metadata=metadata)],
            )
            for member in self.members
        ]
        answers = self._all_ask(requests, self._join_version)
        for member, answer in zip(self.members, answers, strict=True):
            _check(answer.error_code)
            member.member_id, member.epoch = answer.member_id, answer.generation_id
        self._leader = answers[0].leader
        return len({member.epoch for member in self.members}) == 1

    def _synchronized(self) -> bool:
        each = self.partitions_each
        for number, member in enumerate(self.members):
            member.partitions = list(range(number * each, (number + 1) * each))
        assignments = [
            SyncGroupAssignment(member_id=member.member_id, assignment=self._assignment(member))
            for member in self.members
        ]
        requests = [
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=member.epoch,
                member_id=member.member_id,
                assignments=assignments if member.member_id == self._leader else [],
            )
            for member in self.members
        ]
        answers = self._all_ask(requests, self._sync_version)
        if any(answer.error_code == Code.REBALANCE_IN_PROGRESS for answer in answers):
            return False
        for member, answer in zip(self.members, answers, strict=True):
            _check(answer.error_code)
            if answer.assignment != self._assignment(member):
                raise RuntimeError(f"{member.member_id} has got another assignment than its own")
        return True

    def _assignment(self, member: Member) -> bytes:
        mine = tuple(TopicAndPartition(self.topic, index) for index in member.partitions)
        return encode_assignment(Assignment(mine))


class ConsumerMembers(Members):
    """The broker assigns."""

    heartbeat_version = 1

    def join(self) -> None:
        """Join, and send heartbeats until each has its share and no partition has two owners."""
        for number, member in enumerate(self.members):
            member.member_id = f"member-{number}"
        joins = [
            ConsumerGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=member.member_id,
                member_epoch=0,
                rebalance_timeout_ms=REBALANCE_MS,
                subscribed_topic_names=[self.topic],
                topic_partitions=[],
            )
            for member in self.members
        ]
        self._take_in(self._all_ask(joins, self.heartbeat_version))
        end = time.monotonic() + TIMEOUT_S
        while not self._is_settled:
            if time.monotonic() > end:
                raise TimeoutError(f"not assigned after {TIMEOUT_S:.0f} s")
            time.sleep(PAUSE_S)  # brokers wait between two target assignments
            reports = [self._report(member) for member in self.members]
            self._take_in(self._all_ask(reports, self.heartbeat_version))

    def heartbeat(self, member: Member) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat of the member's epoch."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=member.member_id, member_epoch=member.epoch
        )

    def _report(self, member: Member) -> ConsumerGroupHeartbeatRequest:
        request = self.heartbeat(member)
        request.topic_partitions = (
            [HeartbeatTopicPartitions(topic_id=self._topic_id, partitions=member.partitions)]
            if member.partitions
            else []
        )
        return request

    def _take_in(self, answers: list[Any]) -> None:
        for member, answer in zip(self.members, answers, strict=True):
            _check(answer.error_code)
            member.epoch = answer.member_epoch
            if answer.assignment is not None:
                topics = answer.assignment.topic_partitions
                member.partitions = list(topics[0].partitions) if topics else []
                self._topic_id = topics[0].topic_id if topics else self._topic_id

    _topic_id = bytes(16)

    @property
    def _is_settled(self) -> bool:
        owned = [index for member in self.members for index in member.partitions]
        is_even = all(len(member.partitions) == self.partitions_each for member in self.members)
        return is_even and len(set(owned)) == len(owned) and len({item.epoch for item in self.members}) == 1


KINDS: dict[str, type[Members]] = {"classic group": ClassicMembers, "consumer group": ConsumerMembers}


def _check(error: int) -> None:
    if error:
        raise RuntimeError(f"a member was answered with error {error}")


def _wait_for_coordinator(line: Line, group_id: str) -> None:
    """Ask until the coordinator serves: a broker makes the topic of offsets with the first group."""
    deadline = time.monotonic() + TIMEOUT_S
    heartbeat = HeartbeatRequest(group_id=group_id, generation_id=0, member_id="nobody")
    not_yet = {Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR}
    while True:
        error = line.ask(FindCoordinatorRequest(key=group_id), COORDINATOR_VERSION).error_code
        if not error and line.ask(heartbeat, ClassicMembers.heartbeat_version).error_code not in not_yet:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody coordinates {group_id} after {TIMEOUT_S} s")
        time.sleep(_POLL_S)

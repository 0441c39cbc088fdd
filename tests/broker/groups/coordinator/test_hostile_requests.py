"""Whatever clients send, the coordinator answers; it never raises on their account."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.broker.groups.coordinator import GroupConfig
from ottla.model.error_codes import Code
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest, LeavingMember
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_delete import OffsetDeletePartition, OffsetDeleteRequest, OffsetDeleteTopic
from ottla.wire.api.offset_fetch import (
    OffsetFetchGroup,
    OffsetFetchGroupTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from ottla.wire.api.sync_group import SyncGroupAssignment, SyncGroupRequest
from ottla.wire.compiler import FIELDS
from ottla.wire.schema import Request, decode, encode
from tests.broker.groups.coordinator.driver import Loop, join_request, subscription

KINDS: list[type[Request[Any]]] = [
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetDeleteRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    DeleteGroupsRequest,
]
ELEMENTS = {
    "protocols": JoinGroupProtocol,
    "members": LeavingMember,
    "assignments": SyncGroupAssignment,
    ("OffsetCommitRequest", "topics"): OffsetCommitTopic,
    ("OffsetCommitTopic", "partitions"): OffsetCommitPartition,
    ("OffsetDeleteRequest", "topics"): OffsetDeleteTopic,
    ("OffsetDeleteTopic", "partitions"): OffsetDeletePartition,
    ("OffsetFetchRequest", "topics"): OffsetFetchTopic,
    ("OffsetFetchRequest", "groups"): OffsetFetchGroup,
    ("OffsetFetchGroup", "topics"): OffsetFetchGroupTopic,
}
NUMBERS = [-(2**31), -5, -1, 0, 1, 2, 3, 6_000, 10_000, 2**31 - 1]
LARGE = [-(2**63), -1, 0, 1_000, 2**63 - 1]


class Stranger:
    """Fills requests with values from small pools, so that they often mean something together."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.member_ids = ["", "stranger"]

    def message(self, kind: type, version: int) -> Any:
        made = kind()
        for row in FIELDS[kind]:
            if row.exists(version):
                nullable = row.nullable_since is not None and version >= row.nullable_since
                setattr(
                    made, row.name, self.value(kind, row.name, getattr(made, row.name), version, nullable)
                )
        return made

    def value(self, kind: type, name: str, default: Any, version: int, nullable: bool) -> Any:
        if nullable and self.random.random() < 0.3:
            return None
        choose = self.random.choice
        element = ELEMENTS.get((kind.__name__, name)) or ELEMENTS.get(name)
        if element is not None:
            return [self.message(element, version) for _ in range(choose([0, 1, 1, 2]))]
        if name in ("groups", "groups_names", "states_filter", "types_filter"):
            return [choose(["", "g", "h", "Stable", "classic"]) for _ in range(choose([0, 1, 3]))]
        if name == "partition_indexes":
            return [choose(NUMBERS) for _ in range(2)]
        return choose(self.pool(name, default))

    def pool(self, name: str, default: Any) -> list[Any]:
        if name == "member_id":
            return self.member_ids
        if name == "topic_id":
            return [bytes(16)]
        if isinstance(default, bool):
            return [True, False]
        if isinstance(default, int):
            return LARGE if name in LONG else NUMBERS
        if isinstance(default, bytes):
            return [b"", b"\0", subscription("g"), bytes(99)]
        return ["", "g", "g", "g", "h", "consumer", "consumer", "x" * 0x7FFF]


LONG = {"committed_offset", "commit_timestamp", "retention_time_ms"}


@pytest.mark.parametrize("seed", range(40))
def test_any_request_of_any_version_is_answered_or_parked(seed: int) -> None:
    stranger = Stranger(seed)
    loop = Loop(GroupConfig(initial_rebalance_delay_ms=0, member_count_max=3))
    for _ in range(250):
        kind = stranger.random.choice(KINDS)
        version = stranger.random.randrange(kind.API.version_newest + 1)
        request = stranger.message(kind, version)
        # What a broker would really get.
        request = decode(kind, version, b"".join(encode(request, version)))
        ticket = loop.send(request, version, stranger.random.choice(["c", "", "x" * 0x7FFF]))
        if kind is JoinGroupRequest and ticket in loop.replies:
            stranger.member_ids.append(loop.join_reply(ticket).member_id)
        if stranger.random.random() < 0.3:
            loop.advance(stranger.random.choice([0, 5_000, 100_000]))
        if stranger.random.random() < 0.02:
            loop.restart()
        if stranger.random.random() < 0.02:
            loop.perform(loop.coordinator.expire(loop.now_ms))


def test_an_id_given_to_a_dynamic_member_is_not_for_an_instance() -> None:
    loop = Loop()
    loop.send(join_request(group_instance_id="a"), 9)
    given = loop.call(join_request(), 9).member_id
    assert loop.call(join_request(given, group_instance_id="a"), 9).error_code == Code.FENCED_INSTANCE_ID
    assert loop.call(join_request(given, group_instance_id="b"), 9).error_code == Code.UNKNOWN_MEMBER_ID

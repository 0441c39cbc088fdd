"""Commit, fetch, delete and expiry of offsets; groups as tools see them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.groups.coordinator import GroupConfig
from ottla.model.error_codes import Code
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
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
from tests.broker.groups.coordinator.driver import (
    Loop,
    commit_request,
    fetch_all,
    join_request,
    stable_group,
    subscription,
    sync_request,
)

DAY_MS = 86_400_000


def commit(loop: Loop, offset: int, *args: Any, version: int = 9, **fields: Any) -> int:
    response = loop.call(commit_request(offset, *args, **fields), version)
    return response.topics[0].partitions[0].error_code


def delete_offsets(loop: Loop, topic: str, group: str = "g") -> tuple[int, list[int]]:
    topics = [OffsetDeleteTopic(name=topic, partitions=[OffsetDeletePartition(partition_index=0)])]
    response = loop.call(OffsetDeleteRequest(group_id=group, topics=topics))
    return response.error_code, [one.error_code for topic in response.topics for one in topic.partitions]


def delete_groups(loop: Loop, *groups: str) -> list[int]:
    response = loop.call(DeleteGroupsRequest(groups_names=list(groups)))
    return [one.error_code for one in response.results]


def group_ids(loop: Loop, **filters: list[str]) -> dict[str, str]:
    response = loop.call(ListGroupsRequest(**filters))
    assert not response.error_code
    assert {one.group_type for one in response.groups} <= {"classic"}
    return {one.group_id: one.group_state for one in response.groups}


def leave_all(loop: Loop, ids: list[str], group: str = "g") -> None:
    loop.call(LeaveGroupRequest(group_id=group, members=[LeavingMember(member_id=one) for one in ids]))


# --- commit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_a_consumer_without_group_management_commits_in_every_version(version: int) -> None:
    loop = Loop()
    assert commit(loop, 42, metadata="note", version=version) == Code.NONE
    assert fetch_all(loop) == {("t", 0): 42}
    loop.restart()
    assert fetch_all(loop) == {("t", 0): 42}
    assert group_ids(loop) == {"g": "Empty"}


def test_a_commit_is_visible_when_it_is_stored_and_not_before() -> None:
    loop = Loop()
    commit(loop, 1)
    loop.holding = True
    tickets = [loop.send(commit_request(2)), loop.send(commit_request(3))]
    assert fetch_all(loop) == {("t", 0): 1}
    loop.settle(Code.NOT_ENOUGH_REPLICAS)
    assert fetch_all(loop) == {("t", 0): 1}
    loop.settle()
    assert fetch_all(loop) == {("t", 0): 3}
    errors = [loop.replies[ticket].topics[0].partitions[0].error_code for ticket in tickets]  # type: ignore[attr-defined]
    assert errors == [Code.COORDINATOR_NOT_AVAILABLE, Code.NONE]


def test_a_failed_first_commit_leaves_no_group() -> None:
    loop = Loop()
    loop.holding = True
    ticket = loop.send(commit_request(2))
    loop.settle(Code.MESSAGE_TOO_LARGE)
    assert loop.replies[ticket].topics[0].partitions[0].error_code == Code.INVALID_COMMIT_OFFSET_SIZE  # type: ignore[attr-defined]
    assert group_ids(loop) == {}


def test_who_may_commit() -> None:
    loop = Loop()
    assert commit(loop, 1, "m", 5, version=8) == Code.ILLEGAL_GENERATION
    assert commit(loop, 1, "m", 5, version=9) == Code.GROUP_ID_NOT_FOUND
    (leader, other), generation = stable_group(loop)
    assert commit(loop, 1) == Code.UNKNOWN_MEMBER_ID
    assert commit(loop, 1, "stranger", generation) == Code.UNKNOWN_MEMBER_ID
    assert commit(loop, 1, leader, generation - 1) == Code.ILLEGAL_GENERATION
    assert commit(loop, 1, leader, -1) == Code.ILLEGAL_GENERATION
    assert commit(loop, 1, leader, generation) == Code.NONE
    tickets = [loop.send(join_request(leader), 3)]
    assert commit(loop, 2, other, generation) == Code.NONE, "before it gives its partitions up"
    tickets.append(loop.send(join_request(other), 3))
    assert commit(loop, 3, other, generation) == Code.ILLEGAL_GENERATION
    assert commit(loop, 3, other, generation + 1) == Code.REBALANCE_IN_PROGRESS
    loop.send(sync_request(leader, generation + 1, {}))
    leave_all(loop, [leader, other])
    assert commit(loop, 4, other, generation + 1) == Code.UNKNOWN_MEMBER_ID
    assert commit(loop, 4) == Code.NONE


def test_a_commit_counts_as_a_heartbeat() -> None:
    loop = Loop()
    (member,), generation = stable_group(loop, 1)
    for offset in range(5):
        loop.advance(9_000)
        assert commit(loop, offset, member, generation) == Code.NONE


def test_metadata_that_is_too_long_fails_its_partition_only() -> None:
    loop = Loop(GroupConfig(metadata_length_max=4))
    partitions = [
        OffsetCommitPartition(partition_index=at, committed_offset=at, committed_metadata=text)
        for at, text in enumerate(
            ["four", "five5", "\N{GRINNING FACE}\N{GRINNING FACE}", "\N{GRINNING FACE}" * 3, None]
        )
    ]
    request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitTopic(name="t", partitions=partitions)])
    results = loop.call(request, 9).topics[0].partitions
    too_large = Code.OFFSET_METADATA_TOO_LARGE
    assert [one.error_code for one in results] == [0, too_large, 0, too_large, 0]
    assert fetch_all(loop) == {("t", 0): 0, ("t", 2): 2, ("t", 4): 4}
    assert commit(loop, 1, group="h", metadata="too long") == too_large
    assert "h" not in group_ids(loop)


# --- fetch ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(8))
def test_fetch_of_one_group(version: int) -> None:
    loop = Loop()
    commit(loop, 42, metadata="note", leader_epoch=3)
    asked = OffsetFetchRequest(
        group_id="g",
        topics=[OffsetFetchTopic(name="t", partition_indexes=[0, 1])],
        require_stable=version >= 7,
    )
    response = loop.call(asked, version)
    found, missing = response.topics[0].partitions
    assert (found.committed_offset, found.committed_leader_epoch, found.metadata) == (42, 3, "note")
    assert (missing.committed_offset, missing.metadata, missing.error_code) == (-1, "", Code.NONE)
    if version >= 2:
        everything = loop.call(OffsetFetchRequest(group_id="g", topics=None), version)
        assert [one.partition_index for one in everything.topics[0].partitions] == [0]
    assert loop.call(OffsetFetchRequest(group_id="none", topics=[]), version).topics == []


@pytest.mark.parametrize("version", [8, 9, 10])
def test_fetch_of_several_groups(version: int) -> None:
    loop = Loop()
    commit(loop, 1, group="g")
    commit(loop, 2, group="h")
    topic = OffsetFetchGroupTopic(name="t", topic_id=b"i" * 16, partition_indexes=[0])
    groups = [OffsetFetchGroup(group_id=one, topics=[topic]) for one in ("g", "h", "none")]
    response = loop.call(OffsetFetchRequest(groups=groups), version)
    answers = [one.topics[0].partitions[0].committed_offset for one in response.groups]
    assert answers == [1, 2, -1]
    assert {one.topics[0].topic_id for one in response.groups} == {b"i" * 16}


def test_fetch_while_loading() -> None:
    loop = Loop(load=False)
    response = loop.call(OffsetFetchRequest(group_id="g", topics=[]), 2)
    assert response.error_code == Code.NOT_COORDINATOR
    oldest = OffsetFetchRequest(group_id="g", topics=[OffsetFetchTopic(name="t", partition_indexes=[0])])
    partition = loop.call(oldest, 1).topics[0].partitions[0]
    assert (partition.committed_offset, partition.error_code) == (-1, Code.NOT_COORDINATOR)
    batched = loop.call(OffsetFetchRequest(groups=[OffsetFetchGroup(group_id="g")]), 8)
    assert batched.groups[0].error_code == Code.NOT_COORDINATOR


# --- delete ---------------------------------------------------------------------------------------------


def test_offsets_of_topics_in_use_are_not_deleted() -> None:
    loop = Loop()
    assert delete_offsets(loop, "t") == (Code.GROUP_ID_NOT_FOUND, [])
    (member,), generation = stable_group(loop, 1, metadata=subscription("t"))
    commit(loop, 1, member, generation)
    commit(loop, 2, member, generation, topic="other")
    assert delete_offsets(loop, "t") == (Code.NONE, [Code.GROUP_SUBSCRIBED_TO_TOPIC])
    assert delete_offsets(loop, "other") == (Code.NONE, [Code.NONE])
    assert fetch_all(loop) == {("t", 0): 1}
    leave_all(loop, [member])
    assert delete_offsets(loop, "t") == (Code.NONE, [Code.NONE])
    loop.restart()
    assert fetch_all(loop) == {}


def test_offsets_of_a_group_of_another_type_are_deleted_only_when_it_is_empty() -> None:
    loop = Loop()
    (member,), _ = stable_group(loop, 1, protocol_type="connect")
    assert delete_offsets(loop, "t") == (Code.NON_EMPTY_GROUP, [])
    leave_all(loop, [member])
    assert delete_offsets(loop, "t") == (Code.NONE, [Code.NONE])


@pytest.mark.parametrize(
    "metadata", [b"", b"\0\0\0\0\0\1\0\5abc", b"\0\0\0\0\0\1\0\1\xff", b"\0\0\0\0\0\2\0\1a"]
)
def test_unreadable_subscriptions_protect_every_topic(metadata: bytes) -> None:
    loop = Loop()
    stable_group(loop, 1, metadata=metadata)
    assert delete_offsets(loop, "any") == (Code.NONE, [Code.GROUP_SUBSCRIBED_TO_TOPIC])


def test_a_delete_that_cannot_be_stored_changes_nothing() -> None:
    loop = Loop()
    commit(loop, 1)
    loop.holding = True
    offsets = loop.send(
        OffsetDeleteRequest(
            group_id="g",
            topics=[OffsetDeleteTopic(name="t", partitions=[OffsetDeletePartition(partition_index=0)])],
        )
    )
    groups = loop.send(DeleteGroupsRequest(groups_names=["g"]))
    loop.settle(Code.KAFKA_STORAGE_ERROR)
    loop.settle(Code.KAFKA_STORAGE_ERROR)
    assert loop.replies[offsets].topics[0].partitions[0].error_code == Code.NOT_COORDINATOR  # type: ignore[attr-defined]
    assert loop.replies[groups].results[0].error_code == Code.NOT_COORDINATOR  # type: ignore[attr-defined]
    assert fetch_all(loop) == {("t", 0): 1}


def test_empty_groups_are_deleted_with_their_offsets() -> None:
    loop = Loop()
    (member,), generation = stable_group(loop, 1)
    commit(loop, 1, member, generation)
    commit(loop, 2, group="simple")
    result = delete_groups(loop, "g", "simple", "none", "", "simple")
    assert result == [Code.NON_EMPTY_GROUP, Code.NONE, Code.GROUP_ID_NOT_FOUND, Code.INVALID_GROUP_ID]
    leave_all(loop, [member])
    assert delete_groups(loop, "g") == [Code.NONE]
    for _ in range(2):
        assert group_ids(loop) == {}
        assert fetch_all(loop) == {}
        loop.restart()
    _, generation = stable_group(loop, 1)
    assert generation == 1


def test_deleting_a_group_takes_the_commit_that_is_still_being_stored() -> None:
    loop = Loop()
    commit(loop, 1)
    loop.holding = True
    loop.send(commit_request(2, partition=7))
    loop.send(DeleteGroupsRequest(groups_names=["g"]))
    loop.settle()
    loop.settle()
    assert group_ids(loop) == {}


def test_who_joins_while_its_group_is_deleted_stays() -> None:
    loop = Loop()
    commit(loop, 1)
    loop.holding = True
    loop.send(DeleteGroupsRequest(groups_names=["g"]))
    ticket = loop.send(join_request(), 3)
    loop.settle()
    loop.advance(3_000)
    assert loop.join_reply(ticket).generation_id == 1


# --- expiry ---------------------------------------------------------------------------------------------


def expire(loop: Loop) -> None:
    loop.perform(loop.coordinator.expire(loop.now_ms))


def test_offsets_without_group_management_expire_after_their_commit() -> None:
    loop = Loop()
    commit(loop, 1)
    loop.advance(3 * DAY_MS)
    commit(loop, 2, partition=1)
    loop.advance(4 * DAY_MS - 1)
    expire(loop)
    assert len(fetch_all(loop)) == 2
    loop.advance(1)
    expire(loop)
    assert fetch_all(loop) == {("t", 1): 2}
    loop.advance(3 * DAY_MS)
    expire(loop)
    assert group_ids(loop) == {}
    loop.restart()
    assert group_ids(loop) == {}


def test_offsets_with_their_own_retention_expire_at_their_own_time() -> None:
    loop = Loop()
    commit(loop, 1, retention_time_ms=1_000, version=2)
    loop.restart()
    loop.advance(999)
    expire(loop)
    assert fetch_all(loop) == {("t", 0): 1}
    loop.advance(1)
    expire(loop)
    assert fetch_all(loop) == {}


def test_a_commit_of_version_1_is_dated_by_the_client() -> None:
    loop = Loop()
    commit(loop, 1, timestamp=loop.now_ms - 8 * DAY_MS, version=1)
    expire(loop)
    assert fetch_all(loop) == {}


def test_offsets_in_use_never_expire_and_others_do() -> None:
    loop = Loop()
    ids, generation = stable_group(loop, 1, session_timeout_ms=1_800_000, metadata=subscription("t"))
    commit(loop, 1, ids[0], generation)
    commit(loop, 2, ids[0], generation, topic="dropped")
    for _ in range(8 * 48 + 1):
        loop.advance(DAY_MS // 48 - 1)
        assert commit(loop, 1, ids[0], generation) == Code.NONE
    expire(loop)
    assert fetch_all(loop) == {("t", 0): 1}
    leave_all(loop, ids)
    loop.advance(7 * DAY_MS - 1)
    loop.restart()
    expire(loop)
    assert fetch_all(loop) == {("t", 0): 1}, "counted from when the group became empty"
    loop.advance(1)
    expire(loop)
    assert group_ids(loop) == {}


def test_groups_whose_records_are_being_stored_wait_for_the_next_round() -> None:
    loop = Loop()
    commit(loop, 1)
    loop.advance(8 * DAY_MS)
    loop.holding = True
    loop.send(commit_request(2))
    expire(loop)
    assert len(loop.pending) == 1


# --- tools ----------------------------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_type() -> None:
    loop = Loop()
    stable_group(loop, group="s")
    commit(loop, 1, group="e")
    assert group_ids(loop) == {"s": "Stable", "e": "Empty"}
    assert group_ids(loop, states_filter=["stable"]) == {"s": "Stable"}
    assert group_ids(loop, states_filter=["Dead"]) == {}
    assert group_ids(loop, types_filter=["Classic"]) == {"s": "Stable", "e": "Empty"}
    assert group_ids(loop, types_filter=["consumer"]) == {}
    for version in range(6):
        assert len(loop.call(ListGroupsRequest(), version).groups) == 2


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described(version: int) -> None:
    loop = Loop()
    (leader, _), _ = stable_group(loop)
    group, none = loop.call(DescribeGroupsRequest(groups=["g", "none"]), version).groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert group.members[0].member_assignment == f"for {leader}".encode()
    assert group.members[0].member_metadata == subscription("t")
    assert none.group_state == "Dead"
    assert none.error_code == (Code.GROUP_ID_NOT_FOUND if version >= 6 else Code.NONE)
    loop.send(join_request(), 3)
    group = loop.call(DescribeGroupsRequest(groups=["g"]), version).groups[0]
    assert (group.group_state, group.protocol_data, group.members[0].member_metadata) == (
        "PreparingRebalance",
        "",
        b"",
    )


# --- deleted topics -------------------------------------------------------------------------------------


def forget_topic(loop: Loop, topic: str) -> None:
    loop.perform(loop.coordinator.forget_topic(topic, loop.now_ms))


def test_offsets_of_a_deleted_topic_go_in_all_groups() -> None:
    loop = Loop()
    for group in ("g", "h"):
        commit(loop, 1, group=group, topic="gone")
        commit(loop, 2, group=group, topic="gone", partition=3)
        commit(loop, 3, group=group, topic="stays")
    commit(loop, 4, group="only", topic="gone")
    forget_topic(loop, "gone")
    for _ in range(2):
        assert [fetch_all(loop, group) for group in ("g", "h", "only")] == [
            {("stays", 0): 3},
            {("stays", 0): 3},
            {},
        ]
        assert set(group_ids(loop)) == {"g", "h"}
        loop.restart()


def test_members_keep_their_group_when_their_topic_goes() -> None:
    loop = Loop()
    (member,), generation = stable_group(loop, 1)
    assert commit(loop, 5, member, generation) == Code.NONE
    forget_topic(loop, "t")
    assert fetch_all(loop) == {}
    assert group_ids(loop) == {"g": "Stable"}
    assert commit(loop, 6, member, generation) == Code.NONE


def test_a_commit_on_its_way_is_forgotten_with_its_topic() -> None:
    loop = Loop()
    loop.holding = True
    ticket = loop.send(commit_request(1))
    forget_topic(loop, "t")
    loop.settle()
    assert loop.replies[ticket].topics[0].partitions[0].error_code == Code.NONE  # type: ignore[attr-defined]
    loop.settle()
    assert fetch_all(loop) == {}
    assert group_ids(loop) == {}
    assert not loop.pending


def test_a_topic_that_nobody_knows_is_forgotten_without_a_record() -> None:
    loop = Loop()
    commit(loop, 1)
    written = len(loop.log)
    forget_topic(loop, "other")
    assert len(loop.log) == written


def test_forgetting_fails_with_the_log_and_leaves_the_offsets() -> None:
    loop = Loop()
    commit(loop, 1)
    loop.holding = True
    forget_topic(loop, "t")
    loop.settle(Code.NOT_ENOUGH_REPLICAS)
    assert fetch_all(loop) == {("t", 0): 1}


def test_groups_of_other_brokers_are_left_alone() -> None:
    loop = Loop()
    commit(loop, 1)
    partition = loop.log[-1][0]
    loop.perform(loop.coordinator.unload(partition, loop.now_ms))
    written = len(loop.log)
    forget_topic(loop, "t")
    loop.coordinator.begin_load(partition)
    forget_topic(loop, "t")
    assert len(loop.log) == written

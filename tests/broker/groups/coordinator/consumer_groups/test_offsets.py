"""Offsets of consumer groups: who may commit and fetch them, and how long they stay."""

from __future__ import annotations

from ottla.broker.groups.coordinator import GroupConfig
from ottla.model.error_codes import Code
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_delete import OffsetDeletePartition, OffsetDeleteRequest, OffsetDeleteTopic
from ottla.wire.api.offset_fetch import OffsetFetchGroup, OffsetFetchGroupTopic, OffsetFetchRequest
from tests.broker.groups.coordinator.consumer_groups.members import AT_ONCE, Member, described, settle
from tests.broker.groups.coordinator.driver import Loop

RETENTION_MS = GroupConfig().offsets_retention_ms


def group_of_two() -> tuple[Loop, Member, Member]:
    loop = Loop(AT_ONCE)
    loop.topics.put("t", 4)
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join(), first.beat(), second.join()
    settle(first, second)
    return loop, first, second


def commit(loop: Loop, member_id: str, epoch: int, partition: int, version: int | None = 9) -> int:
    request = OffsetCommitRequest(
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitTopic(
                name="t", partitions=[OffsetCommitPartition(partition_index=partition, committed_offset=7)]
            )
        ],
    )
    return loop.call(request, version).topics[0].partitions[0].error_code


def fetch(loop: Loop, member_id: str | None, epoch: int) -> tuple[int, list[int]]:
    topics = [OffsetFetchGroupTopic(name="t", partition_indexes=[0, 3])]
    wanted = OffsetFetchGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=topics)
    group = loop.call(OffsetFetchRequest(groups=[wanted]), 9).groups[0]
    offsets = [partition.committed_offset for topic in group.topics for partition in topic.partitions]
    return group.error_code, offsets


def test_a_member_commits_and_fetches_with_its_epoch() -> None:
    loop, first, second = group_of_two()
    assert commit(loop, "a", first.epoch, 0) == Code.NONE
    assert fetch(loop, "a", first.epoch) == (Code.NONE, [7, -1])
    assert fetch(loop, None, -1) == (Code.NONE, [7, -1])  # a tool
    assert fetch(loop, "b", second.epoch + 1)[0] == Code.STALE_MEMBER_EPOCH
    assert fetch(loop, "x", 1)[0] == Code.UNKNOWN_MEMBER_ID
    assert commit(loop, "a", first.epoch + 1, 0) == Code.STALE_MEMBER_EPOCH
    assert commit(loop, "x", 1, 0) == Code.UNKNOWN_MEMBER_ID
    assert commit(loop, "", -1, 0) == Code.UNKNOWN_MEMBER_ID
    assert commit(loop, "a", first.epoch, 0, version=8) == Code.UNSUPPORTED_VERSION


def test_an_older_epoch_is_good_for_what_the_member_has_had_since_then() -> None:
    loop, first, _ = group_of_two()
    assert first.numbers == [0, 1]
    assert first.epoch == 2
    assert commit(loop, "a", 1, 0) == Code.NONE
    assert commit(loop, "a", 1, 3) == Code.STALE_MEMBER_EPOCH  # another member has it now
    assert commit(loop, "b", 1, 3) == Code.STALE_MEMBER_EPOCH  # the member had nothing then
    loop.restart()
    assert commit(loop, "a", 1, 0) == Code.NONE


def test_offsets_expire_when_nobody_subscribes_and_the_group_with_them() -> None:
    loop, first, second = group_of_two()
    commit(loop, "a", first.epoch, 0)
    loop.advance(RETENTION_MS)
    loop.restart()
    settle(*(member for member in (first, second) if not member.join().error_code))
    loop.perform(loop.coordinator.expire(loop.now_ms))
    assert fetch(loop, None, -1) == (Code.NONE, [7, -1])
    first.leave(), second.leave()
    assert described(loop).group_state == "Empty"
    loop.perform(loop.coordinator.expire(loop.now_ms))
    assert fetch(loop, None, -1) == (Code.NONE, [-1, -1])
    assert described(loop).error_code == Code.GROUP_ID_NOT_FOUND
    loop.restart()
    assert described(loop).error_code == Code.GROUP_ID_NOT_FOUND


def test_a_tool_may_commit_to_an_empty_group_and_delete_it() -> None:
    loop, first, second = group_of_two()
    delete = DeleteGroupsRequest(groups_names=["g"])
    assert loop.call(delete).results[0].error_code == Code.NON_EMPTY_GROUP
    first.leave(), second.leave()
    assert commit(loop, "", -1, 0) == Code.NONE
    assert loop.call(delete).results[0].error_code == Code.NONE
    assert fetch(loop, None, -1) == (Code.NONE, [-1, -1])
    assert loop.call(delete).results[0].error_code == Code.GROUP_ID_NOT_FOUND
    loop.restart()
    assert loop.call(ListGroupsRequest()).groups == []


def test_offsets_of_a_subscribed_topic_are_not_deleted() -> None:
    loop, first, second = group_of_two()
    commit(loop, "a", first.epoch, 0)
    topics = [OffsetDeleteTopic(name="t", partitions=[OffsetDeletePartition(partition_index=0)])]
    request = OffsetDeleteRequest(group_id="g", topics=topics)
    assert loop.call(request).topics[0].partitions[0].error_code == Code.GROUP_SUBSCRIBED_TO_TOPIC
    first.leave(), second.leave()
    assert loop.call(request).topics[0].partitions[0].error_code == Code.NONE
    assert fetch(loop, None, -1) == (Code.NONE, [-1, -1])


def test_lists_tell_the_kind() -> None:
    loop, *_ = group_of_two()
    rows = [
        (row.group_id, row.group_type, row.group_state, row.protocol_type)
        for row in loop.call(ListGroupsRequest()).groups
    ]
    assert rows == [("g", "consumer", "Stable", "consumer")]
    assert loop.call(ListGroupsRequest(types_filter=["Classic"])).groups == []
    assert len(loop.call(ListGroupsRequest(types_filter=["Consumer"])).groups) == 1
    assert loop.call(ListGroupsRequest(states_filter=["empty"])).groups == []
    group = loop.call(DescribeGroupsRequest(groups=["g"])).groups[0]
    assert (group.error_code, group.error_message) == (
        Code.GROUP_ID_NOT_FOUND,
        "Group g is not a classic group.",
    )
    assert loop.coordinator.group_states() == {"Stable": 1}

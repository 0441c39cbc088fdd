"""TxnOffsetCommit at the group coordinator: who may commit, and when the offsets count."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.coordination.led_partitions import partition_for
from ottla.model.error_codes import Code
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.offset_fetch import OffsetFetchGroup, OffsetFetchRequest
from ottla.wire.api.txn_offset_commit import (
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitTopic,
)
from tests.broker.groups.coordinator.driver import Loop, commit_request, fetch_all, stable_group

KEY = ("t", 0)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def request(offset: int, producer_id: int = 1, **fields: Any) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
    topics = [TxnOffsetCommitTopic(name="t", partitions=[partition])]
    return TxnOffsetCommitRequest(
        transactional_id="x", group_id="g", producer_id=producer_id, producer_epoch=0, topics=topics, **fields
    )


def commit(loop: Loop, offset: int, producer_id: int = 1, **fields: Any) -> int:
    response = loop.call(request(offset, producer_id, **fields), 5)
    return response.topics[0].partitions[0].error_code


def end(loop: Loop, producer_id: int = 1, *, commits: bool = True) -> None:
    loop.coordinator.end_transaction(partition_for("g"), producer_id, is_commit=commits)


def stable(loop: Loop) -> dict[tuple[str, int], tuple[int, int]]:
    groups = [OffsetFetchGroup(group_id="g", topics=None)]
    response = loop.call(OffsetFetchRequest(groups=groups, require_stable=True), 9)
    return {
        (topic.name, one.partition_index): (one.committed_offset, one.error_code)
        for topic in response.groups[0].topics
        for one in topic.partitions
    }


def test_offsets_count_when_the_transaction_is_committed(loop: Loop) -> None:
    assert commit(loop, 5) == Code.NONE
    assert fetch_all(loop) == {}
    assert stable(loop) == {KEY: (-1, Code.UNSTABLE_OFFSET_COMMIT)}
    end(loop)
    assert fetch_all(loop) == {KEY: 5}
    assert stable(loop) == {KEY: (5, Code.NONE)}
    commit(loop, 6)
    end(loop, commits=False)
    assert stable(loop) == {KEY: (5, Code.NONE)}


def test_a_marker_of_another_partition_or_producer_changes_nothing(loop: Loop) -> None:
    commit(loop, 5)
    end(loop, producer_id=2)
    loop.coordinator.end_transaction(partition_for("g") + 1, 1, is_commit=True)
    assert fetch_all(loop) == {}
    assert stable(loop) == {KEY: (-1, Code.UNSTABLE_OFFSET_COMMIT)}


def test_the_newest_record_wins_whenever_transactions_end(loop: Loop) -> None:
    commit(loop, 1, producer_id=1)
    commit(loop, 2, producer_id=2)
    end(loop, 2)
    end(loop, 1)
    assert fetch_all(loop) == {KEY: 2}, "the record of producer 1 is older"
    commit(loop, 3, producer_id=1)
    loop.call(commit_request(4))
    end(loop, 1)
    assert fetch_all(loop) == {KEY: 4}, "and so is one before a commit without a transaction"
    commit(loop, 5, producer_id=1)
    commit(loop, 6, producer_id=2)
    end(loop, 1)
    assert stable(loop) == {KEY: (-1, Code.UNSTABLE_OFFSET_COMMIT)}
    end(loop, 2)
    assert fetch_all(loop) == {KEY: 6}


def test_offsets_on_their_way_into_the_log_are_not_stable(loop: Loop) -> None:
    loop.call(commit_request(4))
    loop.holding = True
    ticket = loop.send(request(5), 5)
    assert stable(loop) == {KEY: (-1, Code.UNSTABLE_OFFSET_COMMIT)}
    loop.settle(Code.NOT_ENOUGH_REPLICAS)
    assert ticket in loop.replies
    assert stable(loop) == {KEY: (4, Code.NONE)}


def test_a_member_must_be_of_the_present_generation(loop: Loop) -> None:
    (leader, _), generation = stable_group(loop)
    fields: dict[str, Any] = {"member_id": leader, "generation_id_or_member_epoch": generation}
    assert commit(loop, 1, **fields) == Code.NONE
    assert commit(loop, 1, **(fields | {"generation_id_or_member_epoch": 0})) == Code.ILLEGAL_GENERATION
    assert commit(loop, 1, **(fields | {"member_id": "stranger"})) == Code.UNKNOWN_MEMBER_ID
    assert commit(loop, 1) == Code.NONE, "nobody is named, as before version 3"
    elsewhere = request(1, generation_id_or_member_epoch=3, member_id="m")
    elsewhere.group_id = "unknown"
    response = loop.call(elsewhere, 5)
    assert response.topics[0].partitions[0].error_code == Code.ILLEGAL_GENERATION


def test_a_group_with_pending_offsets_does_not_expire_but_can_be_deleted(loop: Loop) -> None:
    commit(loop, 5)
    loop.advance(loop.config.offsets_retention_ms * 2)
    loop.perform(loop.coordinator.expire(loop.now_ms))
    assert stable(loop) == {KEY: (-1, Code.UNSTABLE_OFFSET_COMMIT)}
    deleted = loop.call(DeleteGroupsRequest(groups_names=["g"]))
    assert deleted.results[0].error_code == Code.NONE
    end(loop)
    assert fetch_all(loop) == {}

"""Share groups over the socket, step by step: deliveries, locks, sessions, restarts, and what tools ask."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla import EmbeddedBroker, Producer
from ottla.model.error_codes import Code
from ottla.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareOffset,
    AlterShareOffsetsTopic,
)
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareOffsetsTopic,
)
from ottla.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    ShareOffsetsWantedGroup,
)
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.share_group_describe import ShareGroupDescribeRequest
from tests.broker.real_clients import send
from tests.broker.share_groups.share_member import Member, acquired, batch, client_of, configure_group
from tests.waiting import wait_for

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker with ten records in "orders", and a group that begins at the first and delivers twice."""
    with running(tmp_path, {}) as broker:
        yield broker


@pytest.fixture
def short(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """The same with locks of one second: only for tests that wait for their end."""
    with running(tmp_path, {"group.share.record.lock.duration.ms": "1000"}) as broker:
        yield broker


@contextmanager
def running(directory: Path, properties: dict[str, str]) -> Iterator[EmbeddedBroker]:
    settings = {"group.share.delivery.count.limit": "2", "group.share.assignment.interval.ms": "0"}
    with EmbeddedBroker(directory, properties={**settings, **properties}) as broker:
        broker.create_topic("orders", 1)
        configure_group(broker.bootstrap, "share")
        send(broker.bootstrap, "orders", [b"%d" % number for number in range(10)])
        yield broker


def offsets(broker: EmbeddedBroker, group_id: str = "share") -> list[tuple[int, int]]:
    """Start offset and lag of each partition of a group."""
    with client_of(broker.bootstrap) as client:
        wanted = ShareOffsetsWantedGroup(group_id=group_id, topics=None)
        answer = client.call(DescribeShareGroupOffsetsRequest(groups=[wanted]))
    assert answer.groups[0].error_code == 0
    return [(item.start_offset, item.lag) for topic in answer.groups[0].topics for item in topic.partitions]


def test_what_is_accepted_is_done_and_what_is_released_comes_again(shared: EmbeddedBroker) -> None:
    with Member(shared, ["orders"]) as one, Member(shared, ["orders"]) as two:
        assert one.acquire() == [(0, 0, 9, 1)]
        assert two.acquire() == [], "the other one holds them"
        assert one.acknowledge(batch(0, 9, *[ACCEPT] * 4, RELEASE, RELEASE, *[ACCEPT] * 4)) == 0
        assert offsets(shared) == [(4, 2)]
        assert two.acquire() == [(0, 4, 5, 2)]
        assert two.acknowledge(batch(4, 5, ACCEPT)) == 0
        assert offsets(shared) == [(10, 0)]


def test_a_record_is_given_up_after_its_last_delivery(shared: EmbeddedBroker) -> None:
    with Member(shared, ["orders"]) as member:
        for delivery in (1, 2):
            assert member.acquire() == [(0, 0, 9, delivery)]
            assert member.acknowledge(batch(0, 9, RELEASE)) == 0
        assert member.acquire() == []
        assert offsets(shared) == [(10, 0)]


def test_only_who_holds_a_record_may_acknowledge_it_and_only_once(shared: EmbeddedBroker) -> None:
    with Member(shared, ["orders"]) as one, Member(shared, ["orders"]) as two:
        assert one.acquire() == [(0, 0, 9, 1)]
        assert two.acquire() == []
        assert two.acknowledge(batch(1, 2, ACCEPT)) == Code.INVALID_RECORD_STATE
        assert one.acknowledge(batch(1, 2, ACCEPT)) == 0
        assert one.acknowledge(batch(2, 3, ACCEPT)) == Code.INVALID_RECORD_STATE, "2 is done"
        assert one.acknowledge(batch(9, 10, ACCEPT)) == Code.INVALID_REQUEST, "10 was never given out"
        assert one.acknowledge(batch(5, 4, ACCEPT)) == Code.INVALID_REQUEST
        assert one.acknowledge(batch(3, 5, ACCEPT, ACCEPT)) == Code.INVALID_REQUEST
        assert one.acknowledge(batch(3, 3, 9)) == Code.INVALID_REQUEST
        assert one.acknowledge(batch(3, 3, RENEW)) == Code.INVALID_REQUEST, "renewals are announced"
        assert one.acknowledge(batch(3, 4, ACCEPT), batch(4, 5, ACCEPT)) == Code.INVALID_REQUEST
        assert one.acknowledge(batch(0, 9, *[ACCEPT], *[0] * 2, *[REJECT] * 7)) == Code.INVALID_RECORD_STATE
        assert one.acknowledge(batch(0, 0, ACCEPT), batch(3, 9, REJECT)) == 0
        assert offsets(shared) == [(10, 0)]


def test_an_answer_without_records_has_an_empty_set(shared: EmbeddedBroker) -> None:
    """Librdkafka drops answers with null in its place."""
    with Member(shared, ["orders"]) as member:
        assert member.acquire() == [(0, 0, 9, 1)]
        answer = member.fetch(acknowledged={0: (0, 9, ACCEPT)})
        assert [item.records for topic in answer.responses for item in topic.partitions] == [b""]


def test_a_lock_runs_out(short: EmbeddedBroker) -> None:
    with Member(short, ["orders"]) as one, Member(short, ["orders"]) as two:
        assert one.acquire() == [(0, 0, 9, 1)]
        assert acquired(two.fetch(max_wait_ms=60_000)) == [(0, 0, 9, 2)], "the fetch waited for the lock"
        assert one.acknowledge(batch(5, 9, ACCEPT)) == Code.INVALID_RECORD_STATE


def test_a_lock_is_renewed_and_a_fetch_waits_for_records(shared: EmbeddedBroker) -> None:
    with Member(shared, ["orders"]) as member:
        assert member.acquire() == [(0, 0, 9, 1)]
        assert member.acknowledge(batch(0, 4, RENEW), renew=True) == 0
        assert member.acknowledge(batch(0, 9, ACCEPT)) == 0
        send(shared.bootstrap, "orders", [b"later"])
        assert acquired(member.fetch(max_wait_ms=60_000)) == [(0, 10, 10, 1)]


def test_a_group_may_forbid_renewals(shared: EmbeddedBroker) -> None:
    """With the error of Kafka 4.3.1."""
    configure_group(shared.bootstrap, "share", share_renew_acknowledge_enable="false")
    with Member(shared, ["orders"]) as member:
        assert member.acquire() == [(0, 0, 9, 1)]
        assert member.acknowledge(batch(0, 9, RENEW), renew=True) == Code.INVALID_RECORD_STATE
        assert member.acknowledge(batch(0, 9, ACCEPT)) == 0


def test_only_so_many_records_of_a_partition_are_out(shared: EmbeddedBroker) -> None:
    """A batch is given out as a whole, so there may be a few more."""
    limit, size = 100, 40
    shared.create_topic("many", 1)
    configure_group(shared.bootstrap, "share", share_partition_max_record_locks=f"{limit}")
    for _ in range(5):
        send(shared.bootstrap, "many", [b"tea"] * size)
    with Member(shared, ["many"]) as one, Member(shared, ["many"]) as two:
        last = max(item[2] for item in one.acquire())
        assert limit <= last + 1 < limit + size
        assert two.acquire() == [], "the first one holds as many as may be out"
        assert one.acknowledge(batch(0, last, ACCEPT)) == 0
        assert two.acquire()[0][1] == last + 1


@pytest.mark.parametrize(
    ("reset", "first"), [("earliest", 0), ("by_duration:PT1H", 1), ("by_duration:P1D", 0), ("latest", 2)]
)
def test_where_a_new_group_begins(shared: EmbeddedBroker, reset: str, first: int) -> None:
    shared.create_topic("aged", 1)
    now_ms = time.time_ns() // 1_000_000
    with Producer(bootstrap_servers=shared.bootstrap) as producer:
        for minutes in (120, 30):
            producer.send("aged", b"tea", timestamp_ms=now_ms - minutes * 60_000).result(60)
        configure_group(shared.bootstrap, "share", share_auto_offset_reset=reset)
        with Member(shared, ["aged"]) as member:
            before = member.acquire()
            producer.send("aged", b"later").result(60)
            found = [*before, *member.acquire(max_wait_ms=60_000)]
    assert (found[0][1], found[-1][2]) == (first, 2)


def test_a_newcomer_gets_records_before_a_member_that_lost_the_partition_and_does_not_know(
    shared: EmbeddedBroker,
) -> None:
    shared.create_topic("two", 2)
    with Member(shared, ["two"]) as older, ThreadPoolExecutor() as threads:
        assert older.acquire() == []
        first = threads.submit(older.fetch, max_wait_ms=60_000)
        _wait_for_fetches(shared, 1)
        with Member(shared, ["two"]) as newcomer:
            ((_, partition),) = newcomer.assigned
            second = threads.submit(newcomer.fetch, max_wait_ms=60_000)
            _wait_for_fetches(shared, 2)
            send(shared.bootstrap, "two", [b"its own"], partition)
            assert acquired(second.result()) == [(partition, 0, 0, 1)]
            send(shared.bootstrap, "two", [b"while it is busy"], partition)
            assert acquired(newcomer.fetch(max_wait_ms=60_000)) == [(partition, 1, 1, 1)]
            send(shared.bootstrap, "two", [b"of the other"], 1 - partition)
            assert acquired(first.result()) == [(1 - partition, 0, 0, 1)]


def _wait_for_fetches(broker: EmbeddedBroker, count: int) -> None:
    waiting = broker._running().cluster.shares._waiting
    wait_for(lambda: broker._call(lambda: max(map(len, waiting.values()), default=0)) == count)


def test_who_has_left_the_group_may_still_acknowledge(shared: EmbeddedBroker) -> None:
    """Librdkafka closes in this order."""
    with Member(shared, ["orders"]) as one, Member(shared, ["orders"]) as two:
        assert one.acquire() == [(0, 0, 9, 1)]
        assert one.heartbeat(epoch=-1).error_code == 0
        assert one.acknowledge(batch(0, 4, ACCEPT), epoch=-1) == 0
        assert acquired(two.fetch(max_wait_ms=60_000)) == [(0, 5, 9, 2)]


@pytest.mark.parametrize("how", ["connection lost", "session ended"])
def test_who_goes_leaves_its_records_to_others(shared: EmbeddedBroker, how: str) -> None:
    with Member(shared, ["orders"]) as one, Member(shared, ["orders"]) as two:
        assert one.acquire() == [(0, 0, 9, 1)]
        assert two.acquire() == []
        if how == "connection lost":
            one.client.close()
        else:
            assert acquired(one.fetch(epoch=-1)) == []
        assert acquired(two.fetch(max_wait_ms=60_000)) == [(0, 0, 9, 2)]


def test_sessions_have_epochs(shared: EmbeddedBroker) -> None:
    with Member(shared, ["orders"]) as member:
        assert member.fetch(epoch=1).error_code == Code.SHARE_SESSION_NOT_FOUND
        assert member.acquire(max_records=3, is_strict=True) == [(0, 0, 2, 1)]
        assert member.fetch(epoch=5).error_code == Code.INVALID_SHARE_SESSION_EPOCH
        assert member.fetch(epoch=0, acknowledged={0: (0, 0, ACCEPT)}).error_code == Code.INVALID_REQUEST
        assert member.acknowledge(batch(0, 0, ACCEPT), epoch=0) == Code.INVALID_SHARE_SESSION_EPOCH
        answer = member.fetch(acknowledged={0: (0, 2, ACCEPT)}, max_records=4, is_strict=True)
        assert acquired(answer) == [(0, 3, 6, 1)]
        assert answer.acquisition_lock_timeout_ms == 30_000
        assert [item.acknowledge_error_code for topic in answer.responses for item in topic.partitions] == [0]
        assert member.fetch(epoch=-1, acknowledged={0: (3, 6, ACCEPT)}).error_code == 0
        assert member.fetch(epoch=3).error_code == Code.SHARE_SESSION_NOT_FOUND
        assert offsets(shared) == [(7, 3)]


def test_a_restart_keeps_what_is_done_and_how_often_records_were_delivered(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("orders", 1)
        configure_group(broker.bootstrap, "share")
        send(broker.bootstrap, "orders", [b"%d" % number for number in range(10)])
        with Member(broker, ["orders"]) as member:
            assert member.acquire() == [(0, 0, 9, 1)]
            said = batch(0, 7, ACCEPT, RELEASE, *[ACCEPT] * 4, RELEASE, REJECT)
            assert member.acknowledge(said) == 0  # 8 and 9 go back with the connection
        before = offsets(broker)
    with EmbeddedBroker(tmp_path) as broker:
        assert offsets(broker) == before == [(1, 4)]
        with Member(broker, ["orders"]) as member:
            assert member.acquire() == [(0, 1, 1, 2), (0, 6, 6, 2), (0, 8, 9, 2)]


def test_members_join_are_fenced_and_leave(shared: EmbeddedBroker) -> None:
    with Member(shared, ["orders"]) as one, Member(shared, ["orders"]) as two:
        assert [one.member_epoch, two.member_epoch] == [1, 2]
        assert one.heartbeat().member_epoch == 2
        assert one.heartbeat(epoch=7).error_code == Code.FENCED_MEMBER_EPOCH
        assert one.heartbeat(epoch=-2).error_code == Code.INVALID_REQUEST
        assert len(one.assigned) == len(two.assigned) == 1, "both share the only partition"
        assert two.heartbeat(epoch=-1).member_epoch == -1
        assert two.heartbeat(epoch=2).error_code == Code.UNKNOWN_MEMBER_ID
        assert one.heartbeat(["orders", "nowhere"]).error_code == 0
        with client_of(shared.bootstrap) as client:
            group = client.call(ShareGroupDescribeRequest(group_ids=["share"])).groups[0]
        assert (group.group_state, group.assignor_name, group.error_code) == ("Stable", "simple", 0)
        assert [member.subscribed_topic_names for member in group.members] == [["nowhere", "orders"]]
        assert group.members[0].assignment.topic_partitions[0].topic_name == "orders"


def test_tools_list_describe_move_and_delete_share_groups(shared: EmbeddedBroker) -> None:
    wanted = AlterShareOffsetsTopic(
        topic_name="orders", partitions=[AlterShareOffset(partition_index=0, start_offset=6)]
    )
    with Member(shared, ["orders"]) as member, client_of(shared.bootstrap) as client:
        assert member.acquire() == [(0, 0, 9, 1)]
        alter = AlterShareGroupOffsetsRequest(group_id="share", topics=[wanted])
        assert client.call(alter).error_code == Code.NON_EMPTY_GROUP
        assert (
            client.call(DeleteGroupsRequest(groups_names=["share"])).results[0].error_code
            == Code.NON_EMPTY_GROUP
        )
        member.heartbeat(epoch=-1)
        assert client.call(alter).error_code == 0
        assert offsets(shared) == [(6, 4)]
        forget = DeleteShareGroupOffsetsRequest(
            group_id="share", topics=[DeleteShareOffsetsTopic(topic_name="orders")]
        )
        assert client.call(forget).error_code == 0
        assert offsets(shared) == []
        listed = client.call(ListGroupsRequest(types_filter=["Share"])).groups
        assert [(item.group_id, item.group_type, item.group_state) for item in listed] == [
            ("share", "share", "Empty")
        ]
        assert client.call(ListGroupsRequest(types_filter=["classic"])).groups == []
        assert client.call(DeleteGroupsRequest(groups_names=["share"])).results[0].error_code == 0
        answer = client.call(ShareGroupDescribeRequest(group_ids=["share"]))
        assert answer.groups[0].error_code == Code.GROUP_ID_NOT_FOUND


def test_a_group_has_one_kind(shared: EmbeddedBroker) -> None:
    join = JoinGroupRequest(
        group_id="share",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupProtocol(name="range", metadata=b"")],
    )
    with Member(shared, ["orders"]) as member:
        assert member.client.call(join).error_code == Code.INCONSISTENT_GROUP_PROTOCOL


def test_a_deleted_topic_is_forgotten(shared: EmbeddedBroker) -> None:
    with Member(shared, ["orders"]) as member:
        assert member.acquire() == [(0, 0, 9, 1)]
        shared.delete_topic("orders")
        assert offsets(shared) == []
        assert member.heartbeat().error_code == 0
        assert member.assigned == []

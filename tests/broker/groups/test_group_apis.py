"""Groups over sockets: members that come, stay, go silent and go; offsets; and what survives a restart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ottla.broker.coordination import topic_records
from ottla.broker.coordination.effects import Caller
from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_delete import OffsetDeletePartition, OffsetDeleteRequest, OffsetDeleteTopic
from ottla.wire.api.offset_fetch import OffsetFetchGroup, OffsetFetchRequest
from tests.broker.groups.group_calls import (
    ALL_VERSIONS,
    INSTANCES_SINCE,
    LEAVE_TOGETHER_SINCE,
    Member,
    Versions,
    commit,
    committed,
    deleted,
    described,
    find,
    listed,
)
from tests.broker.traffic import one, produce
from tests.broker.wire_client import Client
from tests.waiting import wait_for

PROPERTIES = {"offsets.topic.num.partitions": "3", "group.min.session.timeout.ms": "100"}
WAIT_S = 120.0


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties=PROPERTIES) as one:
        one.create_topic("t", 2)
        yield one


@pytest.fixture
def clients(broker: EmbeddedBroker) -> Iterator[list[Client]]:
    with ExitStack() as stack:
        some = [stack.enter_context(Client.of(broker.bootstrap, f"client-{n}")) for n in range(3)]
        find(some[0], "g")
        yield some


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def rejoin(first: Member, second: Member) -> dict[str, Member]:
    """Both join; who leads and who follows."""
    second.ask_to_join()
    until = time.monotonic() + WAIT_S
    while (code := first.heartbeat()) != Code.REBALANCE_IN_PROGRESS:
        assert code == Code.NONE
        assert time.monotonic() < until
    first.ask_to_join()
    answers = {member: member.joined() for member in (first, second)}
    assert {answer.error_code for answer in answers.values()} == {Code.NONE}
    (leader,) = {answer.leader for answer in answers.values()}
    assert {len(answer.members) for member, answer in answers.items() if member.id == leader} == {2}
    assert {len(answer.members) for member, answer in answers.items() if member.id != leader} == {0}
    roles = {member.id == leader: member for member in answers}
    return {"leader": roles[True], "follower": roles[False]}


# --- members --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("versions", ALL_VERSIONS, ids=lambda versions: f"join-{versions.join}")
def test_the_life_of_a_group_of_two(clients: list[Client], group: str, versions: Versions) -> None:
    first, second = (Member(client, group, versions) for client in clients[:2])
    first.enter_alone()
    assert (first.generation, first.heartbeat()) == (1, Code.NONE)
    roles = rejoin(first, second)
    leader, follower = roles["leader"], roles["follower"]
    assert leader.generation == follower.generation == 2
    follower.ask_to_sync()
    assert leader.sync({leader.id: b"L", follower.id: b"F"}) == (Code.NONE, b"L")
    assert follower.synced() == (Code.NONE, b"F")
    assert [leader.heartbeat(), follower.heartbeat()] == [Code.NONE, Code.NONE]
    assert follower.leave() == Code.NONE
    assert leader.heartbeat() == Code.REBALANCE_IN_PROGRESS
    assert follower.heartbeat() == Code.UNKNOWN_MEMBER_ID
    leader.enter_alone()
    assert leader.generation == 3
    assert leader.leave() == Code.NONE
    assert described(clients[2], group).group_state == "Empty"


def test_a_new_member_gets_its_id_first(clients: list[Client], group: str) -> None:
    member = Member(clients[0], group)
    member.ask_to_join()
    assert member.id.startswith("client-0-")
    assert member.joined().member_id == member.id


def test_generations_and_members_that_nobody_knows(clients: list[Client], group: str) -> None:
    member = Member(clients[0], group)
    member.enter_alone()
    assert member.heartbeat(generation=7) == Code.ILLEGAL_GENERATION
    stranger = Member(clients[1], group)
    stranger.id, stranger.generation = "nobody", 1
    assert stranger.heartbeat() == Code.UNKNOWN_MEMBER_ID
    assert stranger.sync()[0] == Code.UNKNOWN_MEMBER_ID
    assert stranger.leave() == Code.UNKNOWN_MEMBER_ID
    assert stranger.commit("t", 5) == Code.UNKNOWN_MEMBER_ID
    stranger._send_join()
    assert stranger.joined().error_code == Code.UNKNOWN_MEMBER_ID


def test_session_timeouts_out_of_bounds_and_a_group_without_a_name(clients: list[Client]) -> None:
    short = Member(clients[0], "bounds", session_ms=50)
    short._send_join()
    assert short.joined().error_code == Code.INVALID_SESSION_TIMEOUT
    nameless = Member(clients[0], "")
    nameless._send_join()
    assert nameless.joined().error_code == Code.INVALID_GROUP_ID


def test_another_protocol_is_not_let_in(clients: list[Client], group: str) -> None:
    Member(clients[0], group).enter_alone()
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=1,
        protocol_type="connect",
        protocols=[],
    )
    assert clients[1].call(request, 3).error_code == Code.INCONSISTENT_GROUP_PROTOCOL


def test_a_silent_member_is_expelled(clients: list[Client], group: str) -> None:
    silent = Member(clients[0], group, session_ms=300)
    silent.enter_alone()
    other = Member(clients[1], group)
    other.ask_to_join()  # answered when the silent one is out
    assert len(other.joined().members) == 1
    assert silent.heartbeat() == Code.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_expelled_although_the_clock_was_set_back(
    broker: EmbeddedBroker, clients: list[Client], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = broker._running().cluster.runtime
    wall_ms = runtime.now_ms
    silent = Member(clients[0], group, session_ms=300, rebalance_ms=600_000)
    silent.enter_alone()
    monkeypatch.setattr(runtime, "now_ms", lambda: wall_ms() - 3_600_000)
    with Client(*clients[1]._address, timeout_s=30) as client:
        other = Member(client, group, rebalance_ms=600_000)
        other.ask_to_join()  # answered when the silent one is out
        assert len(other.joined().members) == 1


def test_who_does_not_join_again_in_time_is_out(clients: list[Client], group: str) -> None:
    slow = Member(clients[0], group, rebalance_ms=300)
    slow.enter_alone()
    other = Member(clients[1], group, rebalance_ms=300)
    other.ask_to_join()
    assert len(other.joined().members) == 1
    assert other.sync({other.id: b"all"}) == (Code.NONE, b"all")
    assert slow.heartbeat() == Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("versions", [one for one in ALL_VERSIONS if one.join >= INSTANCES_SINCE], ids=str)
def test_a_static_member_comes_back_without_a_rebalance(
    clients: list[Client], group: str, versions: Versions
) -> None:
    static = Member(clients[0], group, versions, instance="host-1")
    static.enter_alone()
    again = Member(clients[1], group, versions, instance="host-1")
    answer = again.join()
    assert (answer.error_code, answer.generation_id) == (Code.NONE, static.generation)
    assert again.id != static.id
    assert again.sync() == (Code.NONE, b"all"), "what it had before"
    assert again.heartbeat() == Code.NONE
    assert static.heartbeat() == Code.FENCED_INSTANCE_ID


def test_a_static_member_is_removed_by_its_name(clients: list[Client], group: str) -> None:
    static = Member(clients[0], group, instance="host-1")
    static.enter_alone()
    remover = Member(clients[1], group, instance="host-1")
    assert remover.versions.leave >= LEAVE_TOGETHER_SINCE
    assert remover.leave() == Code.NONE
    assert static.heartbeat() == Code.UNKNOWN_MEMBER_ID


def test_a_connection_that_breaks_while_it_waits_does_no_harm(
    broker: EmbeddedBroker, clients: list[Client], group: str
) -> None:
    first = Member(clients[0], group)
    first.enter_alone()
    with Client.of(broker.bootstrap) as leaving:
        gone = Member(leaving, group, session_ms=300, rebalance_ms=300)
        gone.ask_to_join()
        while first.heartbeat() != Code.REBALANCE_IN_PROGRESS:
            pass  # until it has joined
    first.ask_to_join()
    answer = first.joined()
    assert answer.error_code == Code.NONE
    if len(answer.members) == 2:  # it counts until its session ends
        while first.heartbeat() != Code.REBALANCE_IN_PROGRESS:
            pass
        assert len(first.join().members) == 1
    assert first.sync({first.id: b"all"}) == (Code.NONE, b"all")


# --- offsets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fetch_version", range(1, 10))
@pytest.mark.parametrize("commit_version", [1, 2, 5, 6, 9])
def test_offsets_in_every_version(
    clients: list[Client], group: str, commit_version: int, fetch_version: int
) -> None:
    places = {("t", 0): 5, ("t", 1): 7}
    assert set(commit(clients[0], group, places, commit_version).values()) == {Code.NONE}
    assert committed(clients[1], group, *places, version=fetch_version) == places
    if fetch_version >= 2:
        assert committed(clients[1], group, version=fetch_version) == places


@pytest.mark.parametrize("version", range(1, 10))
def test_commits_in_every_version(clients: list[Client], group: str, version: int) -> None:
    assert commit(clients[0], group, {("t", 0): 3}, version) == {("t", 0): Code.NONE}
    assert committed(clients[0], group, ("t", 0), ("t", 1)) == {("t", 0): 3, ("t", 1): -1}


def test_metadata_and_epoch_of_a_commit_come_back(clients: list[Client], group: str) -> None:
    how = {"committed_metadata": "näher", "committed_leader_epoch": 4}
    commit(clients[0], group, {("t", 0): 3}, 9, **how)
    request = OffsetFetchRequest(groups=[OffsetFetchGroup(group_id=group, topics=None)])
    (found,) = clients[0].call(request, 9).groups[0].topics[0].partitions
    assert (found.committed_offset, found.metadata, found.committed_leader_epoch) == (3, "näher", 4)


def test_a_commit_of_an_unknown_partition_fails_alone(clients: list[Client], group: str) -> None:
    places = {("nowhere", 0): 1, ("t", 0): 2, ("t", 7): 9, ("elsewhere", 3): 3}
    assert commit(clients[0], group, places) == {
        ("nowhere", 0): Code.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 0): Code.NONE,
        ("t", 7): Code.UNKNOWN_TOPIC_OR_PARTITION,
        ("elsewhere", 3): Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert committed(clients[0], group) == {("t", 0): 2}
    assert set(commit(clients[0], group, {("nowhere", 0): 1}).values()) == {Code.UNKNOWN_TOPIC_OR_PARTITION}


def test_metadata_that_is_too_long(clients: list[Client], group: str) -> None:
    assert commit(clients[0], group, {("t", 0): 1}, committed_metadata="x" * 4096) == {("t", 0): Code.NONE}
    assert commit(clients[0], group, {("t", 0): 2}, committed_metadata="x" * 4097) == {
        ("t", 0): Code.OFFSET_METADATA_TOO_LARGE
    }
    assert committed(clients[0], group) == {("t", 0): 1}


def test_only_members_commit_while_there_are_any(clients: list[Client], group: str) -> None:
    member = Member(clients[0], group)
    member.enter_alone()
    assert member.commit("t", 5) == Code.NONE
    assert commit(clients[1], group, {("t", 0): 9}) == {("t", 0): Code.UNKNOWN_MEMBER_ID}
    member.generation += 1
    assert member.commit("t", 6) == Code.ILLEGAL_GENERATION
    assert committed(clients[1], group) == {("t", 0): 5}


@pytest.mark.parametrize("version", [8, 9])
def test_offsets_of_several_groups_at_once(clients: list[Client], group: str, version: int) -> None:
    commit(clients[0], group, {("t", 0): 1})
    asked = [OffsetFetchGroup(group_id=name, topics=None) for name in (group, "stranger")]
    first, second = clients[0].call(OffsetFetchRequest(groups=asked), version).groups
    assert (first.group_id, first.topics[0].partitions[0].committed_offset) == (group, 1)
    assert (second.group_id, second.error_code, second.topics) == ("stranger", Code.NONE, [])


def test_an_empty_commit_is_answered(clients: list[Client], group: str) -> None:
    assert clients[0].call(OffsetCommitRequest(group_id=group, topics=[]), 9).topics == []


def test_offsets_of_a_deleted_topic_are_forgotten(
    broker: EmbeddedBroker, clients: list[Client], group: str
) -> None:
    broker.create_topic("short-lived")
    commit(clients[0], group, {("t", 0): 1, ("short-lived", 0): 2})
    broker.delete_topic("short-lived")
    assert committed(clients[0], group) == {("t", 0): 1}


def test_offsets_are_deleted_where_nobody_reads(
    broker: EmbeddedBroker, clients: list[Client], group: str
) -> None:
    broker.create_topic(group, 1)
    member = Member(clients[0], group)
    member.enter_alone()  # subscribed to "t"
    assert [member.commit("t", 1), member.commit(group, 2)] == [Code.NONE, Code.NONE]

    def delete(*names: str) -> list[int]:
        topics = [
            OffsetDeleteTopic(name=name, partitions=[OffsetDeletePartition(partition_index=0)])
            for name in names
        ]
        response = clients[1].call(OffsetDeleteRequest(group_id=group, topics=topics), 0)
        assert response.error_code == Code.NONE
        found = {topic.name: topic.partitions[0].error_code for topic in response.topics}
        return [found[name] for name in names]

    assert delete("t", group, "nowhere") == [
        Code.GROUP_SUBSCRIBED_TO_TOPIC,
        Code.NONE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert committed(clients[1], group) == {("t", 0): 1}
    assert (
        clients[1].call(OffsetDeleteRequest(group_id="stranger", topics=[]), 0).error_code
        == Code.GROUP_ID_NOT_FOUND
    )


def test_old_offsets_expire(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, properties={"offsets.retention.minutes": "10"}) as broker:
        broker.create_topic("t")
        service = broker._running()
        now = service.cluster.runtime.now_ms()
        with Client.of(broker.bootstrap) as client:
            find(client, "g")
            commit(client, "g", {("t", 0): 1})
            service.cluster.runtime.steady_ms = lambda: now + 5 * 60_000
            commit(client, "h", {("t", 0): 2})
            service.cluster.runtime.steady_ms = lambda: now + 11 * 60_000
            broker._thread().wait_for(service.housekeeping.expire_offsets())
            assert (committed(client, "g"), committed(client, "h")) == ({}, {("t", 0): 2})
            assert listed(client) == {"h"}
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            assert listed(client) == {"h"}, "and stay away"


# --- tools ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described(clients: list[Client], group: str, version: int) -> None:
    member = Member(clients[0], group)
    member.enter_alone()
    found = described(clients[1], group, version)
    assert (found.error_code, found.group_state, found.protocol_type, found.protocol_data) == (
        Code.NONE,
        "Stable",
        "consumer",
        "range",
    )
    (one,) = found.members
    assert (one.member_id, one.client_id, one.client_host) == (member.id, "client-0", "/127.0.0.1")
    assert bytes(one.member_assignment) == b"all"


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_does_not_exist(clients: list[Client], version: int) -> None:
    found = described(clients[0], "stranger", version)
    code = Code.GROUP_ID_NOT_FOUND if version >= 6 else Code.NONE
    assert (found.error_code, found.group_state) == (code, "Dead")


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(clients: list[Client], group: str, version: int) -> None:
    Member(clients[0], group).enter_alone()
    found = {one.group_id: one for one in clients[1].call(ListGroupsRequest(), version).groups}[group]
    assert found.protocol_type == "consumer"
    assert found.group_state == ("Stable" if version >= 4 else "")
    assert found.group_type == ("classic" if version >= 5 else "")
    if version >= 4:
        empty = clients[1].call(ListGroupsRequest(states_filter=["Empty"]), version).groups
        assert group not in {one.group_id for one in empty}


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted(clients: list[Client], group: str, version: int) -> None:
    member = Member(clients[0], group)
    member.enter_alone()
    member.commit("t", 1)
    assert deleted(clients[1], group, "stranger", version=version) == {
        group: Code.NON_EMPTY_GROUP,
        "stranger": Code.GROUP_ID_NOT_FOUND,
    }
    member.leave()
    assert deleted(clients[1], group, version=version) == {group: Code.NONE}
    assert group not in listed(clients[1])
    assert committed(clients[1], group) == {}


# --- restarts and moves ---------------------------------------------------------------------------------


def test_a_stable_group_goes_on_after_a_restart(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, properties=PROPERTIES) as broker:
        broker.create_topic("t")
        with Client.of(broker.bootstrap) as client:
            find(client, "g")
            member = Member(client, "g")
            member.enter_alone()
            static = Member(client, "s", instance="host-1")
            static.enter_alone()
            assert member.commit("t", 41) == Code.NONE
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            member.client = static.client = client
            assert [member.heartbeat(), static.heartbeat()] == [Code.NONE, Code.NONE]
            assert member.sync() == (Code.NONE, b"all"), "the stored assignment"
            assert member.commit("t", 42) == Code.NONE
            assert committed(client, "g") == {("t", 0): 42}
            assert described(client, "g").group_state == "Stable"


def test_a_member_that_does_not_come_back_after_a_restart_is_expelled(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, properties=PROPERTIES) as broker:
        with Client.of(broker.bootstrap) as client:
            find(client, "g")
            Member(client, "g", session_ms=300).enter_alone()
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            other = Member(client, "g")
            assert len(other.join().members) == 1


def test_the_coordinator_moves_with_its_partition() -> None:
    with (
        EmbeddedBroker(brokers=2, properties={"offsets.topic.num.partitions": "1"}) as broker,
        ExitStack() as stack,
    ):
        clients = [stack.enter_context(Client.of(address)) for address in broker.bootstrap.split(",")]
        broker.create_topic("t")
        here = find(clients[0], "g")
        there = 1 - here
        member = Member(clients[here], "g")
        member.enter_alone()
        assert member.commit("t", 5) == Code.NONE
        waiting = Member(stack.enter_context(Client.of(broker.bootstrap.split(",")[here])), "g")
        waiting.ask_to_join()
        while member.heartbeat() != Code.REBALANCE_IN_PROGRESS:
            pass  # until it waits
        broker.move_leader("__consumer_offsets", 0, there)
        assert waiting.joined().error_code == Code.NOT_COORDINATOR, "who waited is sent away"
        assert find(clients[0], "g") == find(clients[1], "g") == there
        assert member.heartbeat() == Code.NOT_COORDINATOR
        assert member.commit("t", 6) == Code.NOT_COORDINATOR
        assert listed(clients[here]) == set()
        member.client = clients[there]
        assert member.heartbeat() == Code.NONE, "the generation is that of the log"
        assert member.commit("t", 7) == Code.NONE
        assert committed(clients[there], "g") == {("t", 0): 7}
        broker.stop_broker(there)
        assert find(clients[here], "g") == here
        assert committed(clients[here], "g") == {("t", 0): 7}


def test_a_large_log_of_offsets_is_loaded_beside_the_loop(tmp_path: Path) -> None:
    """Its records are replayed in slices, and a coordinator that is relieved meanwhile keeps nothing."""
    properties = {"offsets.topic.num.partitions": "1"}
    with EmbeddedBroker(tmp_path, brokers=2, properties=properties) as broker:
        broker.create_topic("t", 100)
        with Client.of(broker.bootstrap) as client:
            here = find(client, "g")
        address = broker.bootstrap.split(",")[here]
        with Client.of(address) as client:
            for number in range(150):
                places = {("t", index): number for index in range(100)}
                assert set(commit(client, f"g{number}", places).values()) == {Code.NONE}
        broker.stop()
        broker.start()
        with Client.of(address) as client:
            wait_until_loaded(client, "g0")
            for number in (0, 77, 149):
                assert committed(client, f"g{number}") == {("t", index): number for index in range(100)}
            assert len(listed(client)) == 150
        with Client.of(broker.bootstrap.split(",")[1 - here]) as client:
            move = broker._running().move_leader
            broker._call(lambda: [move("__consumer_offsets", 0, broker_id) for broker_id in (1 - here, here)])
            assert listed(client) == set()
        with Client.of(address) as client:
            wait_until_loaded(client, "g0")
            assert len(listed(client)) == 150


def wait_until_loaded(client: Client, group: str) -> None:
    wait_for(lambda: not clients_wait(client, group), "the group is loaded")


def clients_wait(client: Client, group: str) -> bool:
    """Whether the coordinator still asks to wait."""
    request = OffsetFetchRequest(groups=[OffsetFetchGroup(group_id=group, topics=None)])
    (found,) = client.call(request, 9).groups
    assert found.error_code in (Code.NONE, Code.COORDINATOR_LOAD_IN_PROGRESS)
    return found.error_code != Code.NONE


def test_a_commit_of_the_same_turn_as_a_move_is_not_lost() -> None:
    """It is staged when the next coordinator begins to load, and must be among what it loads."""
    with (
        EmbeddedBroker(brokers=2, properties={"offsets.topic.num.partitions": "1"}) as broker,
        ExitStack() as stack,
    ):
        clients = [stack.enter_context(Client.of(address)) for address in broker.bootstrap.split(",")]
        broker.create_topic("t")
        here = find(clients[0], "g")
        service = broker._running()
        partition = OffsetCommitPartition(partition_index=0, committed_offset=5)
        request = OffsetCommitRequest(
            group_id="g", topics=[OffsetCommitTopic(name="t", partitions=[partition])]
        )

        def commit_and_move() -> None:
            service.nodes[here].groups.ask(request, Caller(lambda _: None, 9, "c", "/x"))
            service.move_leader("__consumer_offsets", 0, 1 - here)

        broker._call(commit_and_move)
        assert committed(clients[1 - here], "g") == {("t", 0): 5}


def test_a_log_of_offsets_that_cannot_be_read_does_not_stop_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedBroker(tmp_path, properties=PROPERTIES) as broker:
        broker.create_topic("t")
        with Client.of(broker.bootstrap) as client:
            find(client, "g")
            commit(client, "g", {("t", 0): 1})
        broker.stop()

        def damaged(_: bytes) -> None:
            raise CorruptRecord("planted")

        with monkeypatch.context() as patch:
            patch.setattr(topic_records, "batches_of", damaged)
            broker.start()
        with Client.of(broker.bootstrap) as client:
            assert clients_wait(client, "g")
            assert produce(client, "t", one()).error_code == Code.NONE

"""Members of a group, and the questions about groups and offsets, in few words and any version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.model.error_codes import Code
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest, LeavingMember
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_fetch import (
    OffsetFetchGroup,
    OffsetFetchGroupTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from ottla.wire.api.sync_group import SyncGroupAssignment, SyncGroupRequest
from tests.broker.wire_client import Client

SUBSCRIPTION = bytes.fromhex("0000 00000001 0001 74 ffffffff")  # version 0, topic "t", no user data


class Versions(NamedTuple):
    """Those that one client uses together."""

    join: int
    sync: int
    heartbeat: int
    leave: int


ALL_VERSIONS = [
    Versions(0, 0, 0, 0),
    Versions(1, 1, 1, 1),
    Versions(2, 1, 1, 1),
    Versions(3, 2, 2, 2),
    Versions(4, 2, 2, 2),
    Versions(5, 3, 3, 3),
    Versions(6, 4, 4, 4),
    Versions(7, 5, 4, 4),
    Versions(8, 5, 4, 5),
    Versions(9, 5, 4, 5),
]
NEWEST = ALL_VERSIONS[-1]
MEMBER_ID_FIRST_SINCE, INSTANCES_SINCE, LEAVE_TOGETHER_SINCE = 4, 5, 3


def find(client: Client, group: str) -> int:
    """The coordinator's id; makes the offsets topic."""
    answer = client.call(FindCoordinatorRequest(key=group), 2)
    assert answer.error_code == Code.NONE, answer
    return answer.node_id


class Member:
    """One member on one connection. Its id and generation are those of its last join."""

    def __init__(
        self,
        client: Client,
        group: str,
        versions: Versions = NEWEST,
        *,
        instance: str | None = None,
        session_ms: int = 30_000,
        rebalance_ms: int = 30_000,
    ) -> None:
        self.client, self.group, self.versions, self.instance = client, group, versions, instance
        self.id = ""
        self.generation = -1
        self._session_ms, self._rebalance_ms = session_ms, rebalance_ms

    def ask_to_join(self) -> None:
        """With an id from the broker first, where the version wants one."""
        self._send_join()
        if self.versions.join >= MEMBER_ID_FIRST_SINCE and not self.id and self.instance is None:
            answer = self._received_join()
            assert answer.error_code == Code.MEMBER_ID_REQUIRED
            self.id = answer.member_id
            self._send_join()

    def _send_join(self) -> None:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._rebalance_ms,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupProtocol(name="range", metadata=SUBSCRIPTION)],
        )
        self.client.send(request, self.versions.join)

    def _received_join(self) -> JoinGroupResponse:
        answer = self.client.receive()
        assert isinstance(answer, JoinGroupResponse)
        return answer

    def joined(self) -> JoinGroupResponse:
        """Wait for the answer."""
        answer = self._received_join()
        if not answer.error_code:
            self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self) -> JoinGroupResponse:
        self.ask_to_join()
        return self.joined()

    def ask_to_sync(self, assignments: Mapping[str, bytes] | None = None) -> None:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        self.client.send(request, self.versions.sync)

    def synced(self) -> tuple[int, bytes]:
        """Wait for the answer: the error and the assignment."""
        answer = self.client.receive()
        return answer.error_code, bytes(answer.assignment)  # type: ignore[attr-defined]

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> tuple[int, bytes]:
        self.ask_to_sync(assignments)
        return self.synced()

    def enter_alone(self) -> None:
        """Be the only member of a stable group."""
        assert self.join().error_code == Code.NONE
        assert self.sync({self.id: b"all"}) == (Code.NONE, b"all")

    def heartbeat(self, generation: int | None = None) -> int:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id,
            group_instance_id=self.instance,
        )
        return self.client.call(request, self.versions.heartbeat).error_code

    def leave(self) -> int:
        version = self.versions.leave
        if version < LEAVE_TOGETHER_SINCE:
            return self.client.call(
                LeaveGroupRequest(group_id=self.group, member_id=self.id), version
            ).error_code
        leaving = [LeavingMember(member_id=self.id, group_instance_id=self.instance)]
        answer = self.client.call(LeaveGroupRequest(group_id=self.group, members=leaving), version)
        return answer.error_code or answer.members[0].error_code

    def commit(self, topic: str, offset: int, version: int = 9) -> int:
        partition = OffsetCommitPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.id,
            topics=[OffsetCommitTopic(name=topic, partitions=[partition])],
        )
        return self.client.call(request, version).topics[0].partitions[0].error_code


# --- offsets --------------------------------------------------------------------------------------------


def commit(
    client: Client, group: str, offsets: Mapping[tuple[str, int], int], version: int = 9, **how: object
) -> dict[tuple[str, int], int]:
    """Commit without being a member; the errors."""
    topics: dict[str, OffsetCommitTopic] = {}
    for (name, index), offset in offsets.items():
        topic = topics.setdefault(name, OffsetCommitTopic(name=name, partitions=[]))
        partition = OffsetCommitPartition(partition_index=index, committed_offset=offset, **how)  # type: ignore[arg-type]
        topic.partitions.append(partition)
    response = client.call(OffsetCommitRequest(group_id=group, topics=list(topics.values())), version)
    return {
        (one.name, item.partition_index): item.error_code
        for one in response.topics
        for item in one.partitions
    }


def committed(
    client: Client, group: str, *places: tuple[str, int], version: int = 9
) -> dict[tuple[str, int], int]:
    """Committed offsets, of all partitions if none is named."""
    names: dict[str, list[int]] = {}
    for name, index in places:
        names.setdefault(name, []).append(index)
    if version < 8:
        asked = [OffsetFetchTopic(name=name, partition_indexes=some) for name, some in names.items()]
        answer = client.call(OffsetFetchRequest(group_id=group, topics=asked if places else None), version)
        assert answer.error_code == Code.NONE, answer
        return {
            (one.name, p.partition_index): p.committed_offset for one in answer.topics for p in one.partitions
        }
    wanted = [OffsetFetchGroupTopic(name=name, partition_indexes=some) for name, some in names.items()]
    groups = [OffsetFetchGroup(group_id=group, topics=wanted if places else None)]
    (found,) = client.call(OffsetFetchRequest(groups=groups), version).groups
    assert found.error_code == Code.NONE, found
    return {(one.name, p.partition_index): p.committed_offset for one in found.topics for p in one.partitions}


# --- groups ---------------------------------------------------------------------------------------------


def described(client: Client, group: str, version: int = 6) -> DescribedGroup:
    (found,) = client.call(DescribeGroupsRequest(groups=[group]), version).groups
    return found


def listed(client: Client, version: int = 5) -> set[str]:
    return {one.group_id for one in client.call(ListGroupsRequest(), version).groups}


def deleted(client: Client, *groups: str, version: int = 2) -> dict[str, int]:
    response = client.call(DeleteGroupsRequest(groups_names=list(groups)), version)
    return {one.group_id: one.error_code for one in response.results}

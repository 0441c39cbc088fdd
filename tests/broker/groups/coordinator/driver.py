"""A broker's loop of a few lines: carries out decisions in virtual time, on a log in memory.

Appends succeed at once, unless `holding` (then `settle` decides about the oldest one). Every reply is also
encoded in the version of its request: an answer that a client cannot be sent is a failure.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count
from typing import Any, TypeVar, cast

from ottla.broker.coordination.effects import Append, Caller, Record
from ottla.broker.groups.coordinator import GroupConfig, GroupCoordinator, GroupDecision, Timer
from ottla.broker.groups.coordinator.consumer_groups.topics import TopicFacts
from ottla.model.error_codes import Code
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_fetch import OffsetFetchGroup, OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.api.sync_group import SyncGroupAssignment, SyncGroupRequest, SyncGroupResponse
from ottla.wire.schema import Request, Response, encode

R = TypeVar("R", bound=Response)


class KnownTopics:
    """Topics with ids that are made of their names and of how often they were made."""

    def __init__(self) -> None:
        self.version = 0
        self._topics: dict[str, TopicFacts] = {}
        self._racks: dict[str, list[list[str]]] = {}

    def put(self, name: str, partition_count: int) -> bytes:
        """Create a topic, or give it more partitions; return its id."""
        self.version += 1
        known = self._topics.get(name)
        topic_id = known.topic_id if known else f"{name}#{self.version}".encode().ljust(16, b"\0")[:16]
        self._topics[name] = TopicFacts(name, topic_id, partition_count)
        return topic_id

    def remove(self, name: str) -> None:
        self.version += 1
        del self._topics[name]

    def place(self, name: str, racks: list[list[str]]) -> None:
        """Say in which racks each partition's replicas are from now on."""
        self.version += 1
        self._racks[name] = racks

    def racks(self, name: str) -> list[list[str]]:
        return self._racks.get(name, [])

    def by_name(self, name: str) -> TopicFacts | None:
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> TopicFacts | None:
        return next((topic for topic in self._topics.values() if topic.topic_id == topic_id), None)

    def names(self) -> list[str]:
        return list(self._topics)


class Loop:
    def __init__(self, config: GroupConfig | None = None, *, load: bool = True) -> None:
        self.config = config or GroupConfig()
        self.now_ms = 1_000_000
        self.log: list[tuple[int, Record]] = []
        self.holding = False
        self.pending: deque[Append] = deque()
        self.replies: dict[int, Response] = {}
        self.versions: dict[int, int] = {}
        self._tickets = count(1)
        self._ids = count(1)
        self._timers: list[tuple[int, int, Timer]] = []
        self._order = count()
        self.topics = KnownTopics()
        self.overrides: dict[str, dict[str, int]] = {}
        self.coordinator = self._fresh()
        if load:
            self.load()

    def _fresh(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.config,
            lambda: f"id{next(self._ids)}",
            self.topics,
            lambda group_id: self.overrides.get(group_id, {}),
        )

    # --- the loop's duties ---

    def perform(self, decision: GroupDecision) -> None:
        for reply in decision.replies:
            ticket = cast(int, reply.ticket)
            assert ticket in self.versions, f"reply to {ticket}, which never asked"
            assert ticket not in self.replies, f"second reply to {ticket}: {reply.response}"
            encode(reply.response, self.versions[ticket])
            self.replies[ticket] = reply.response
        for timer in decision.timers:
            heapq.heappush(self._timers, (timer.at_ms, next(self._order), timer))
        self.pending.extend(decision.appends)
        while self.pending and not self.holding:
            self.settle()

    def settle(self, error: Code = Code.NONE) -> None:
        """The oldest append succeeds or fails."""
        append = self.pending.popleft()
        if not error:
            self.log += [(append.partition, record) for record in append.records]
        self.perform(self.coordinator.on_append_result(append.append_id, error, self.now_ms))

    def advance(self, duration_ms: int) -> None:
        """Let time pass, firing timers when they are due."""
        until_ms = self.now_ms + duration_ms
        while self._timers and self._timers[0][0] <= until_ms:
            at_ms, _, timer = heapq.heappop(self._timers)
            self.now_ms = max(self.now_ms, at_ms)
            self.perform(self.coordinator.on_timer(timer, self.now_ms))
        self.now_ms = until_ms

    def load(self) -> None:
        """Read the log from its start."""
        for partition in range(self.config.offsets_partition_count):
            self.coordinator.begin_load(partition)
        for _, record in self.log:
            self.coordinator.replay(record)
        for partition in range(self.config.offsets_partition_count):
            self.perform(self.coordinator.finish_load(partition, self.now_ms))

    def restart(self) -> None:
        """Lose everything but the log."""
        self.pending.clear()
        self._timers.clear()
        self.coordinator = self._fresh()
        self.load()

    # --- clients ---

    def send(self, request: Request[Any], version: int | None = None, client_id: str = "c") -> int:
        version = request.API.version_newest if version is None else version
        ticket = next(self._tickets)
        self.versions[ticket] = version
        caller = Caller(ticket, version, client_id, "/127.0.0.1")
        self.perform(self.coordinator.decide(request, caller, self.now_ms))
        return ticket

    def call(self, request: Request[R], version: int | None = None) -> R:
        """Send what must be answered at once."""
        return cast(R, self.replies[self.send(request, version)])

    def join_reply(self, ticket: int) -> JoinGroupResponse:
        return cast(JoinGroupResponse, self.replies[ticket])

    def sync_reply(self, ticket: int) -> SyncGroupResponse:
        return cast(SyncGroupResponse, self.replies[ticket])


def subscription(*topics: str) -> bytes:
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\1" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def join_request(member_id: str = "", group: str = "g", **fields: Any) -> JoinGroupRequest:
    names = fields.pop("protocols", ["range"])
    metadata = fields.pop("metadata", subscription("t"))
    settings: dict[str, Any] = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000} | fields
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        protocol_type=settings.pop("protocol_type", "consumer"),
        protocols=[JoinGroupProtocol(name=name, metadata=metadata) for name in names],
        **settings,
    )


def sync_request(
    member_id: str,
    generation: int,
    assignments: dict[str, bytes] | None = None,
    group: str = "g",
    **fields: Any,
) -> SyncGroupRequest:
    given = [SyncGroupAssignment(member_id=one, assignment=data) for one, data in (assignments or {}).items()]
    return SyncGroupRequest(
        group_id=group, member_id=member_id, generation_id=generation, assignments=given, **fields
    )


def commit_request(
    offset: int, member_id: str = "", generation: int = -1, group: str = "g", **fields: Any
) -> OffsetCommitRequest:
    partition = OffsetCommitPartition(
        partition_index=fields.pop("partition", 0),
        committed_offset=offset,
        committed_metadata=fields.pop("metadata", None),
        committed_leader_epoch=fields.pop("leader_epoch", -1),
        commit_timestamp=fields.pop("timestamp", -1),
    )
    topic = OffsetCommitTopic(name=fields.pop("topic", "t"), partitions=[partition])
    return OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        topics=[topic],
        **fields,
    )


def fetch_all(loop: Loop, group: str = "g") -> dict[tuple[str, int], int]:
    """Every committed offset of a group, as a client is told."""
    request = OffsetFetchRequest(groups=[OffsetFetchGroup(group_id=group, topics=None)])
    response: OffsetFetchResponse = loop.call(request, 9)
    assert not response.groups[0].error_code
    return {
        (topic.name, one.partition_index): one.committed_offset
        for topic in response.groups[0].topics
        for one in topic.partitions
    }


def stable_group(loop: Loop, size: int = 2, group: str = "g", **fields: Any) -> tuple[list[str], int]:
    """A group whose members have their assignments: their ids (leader first) and the generation."""
    tickets = [loop.send(join_request(group=group, **fields), 3) for _ in range(size)]
    loop.advance(loop.config.initial_rebalance_delay_ms * (size + 1))
    replies = [loop.join_reply(ticket) for ticket in tickets]
    ids = [reply.member_id for reply in replies]
    generation = replies[0].generation_id
    assert {reply.leader for reply in replies} == {ids[0]}
    syncs = [loop.send(sync_request(one, generation, group=group)) for one in ids[1:]]
    plan = {one: f"for {one}".encode() for one in ids}
    leader = loop.send(sync_request(ids[0], generation, plan, group=group))
    for member_id, ticket in zip(ids, [leader, *syncs], strict=True):
        assert loop.sync_reply(ticket).assignment == plan[member_id]
    return ids, generation

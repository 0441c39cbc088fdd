"""A group under a seed: clients that join, lag, leave, die and come back, and a coordinator that is restarted
and whose appends fail, one event at a time in virtual time.

Clients behave as Kafka's do (spec §9), only less reliably. After each event the checks hold what clients were
told against a model of their own: the plans that leaders handed in, the highest generation that was seen,
and the log, read by a reader of four lines.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from typing import Any

from ottla.broker.coordination.effects import Record
from ottla.broker.groups.coordinator import GroupConfig
from ottla.broker.groups.coordinator.state import GroupState
from ottla.model.error_codes import Code
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest, LeavingMember
from ottla.wire.api.sync_group import SyncGroupResponse
from ottla.wire.schema import Response
from tests.broker.groups.coordinator.driver import (
    Loop,
    commit_request,
    fetch_all,
    join_request,
    subscription,
    sync_request,
)

FAILURES = [Code.KAFKA_STORAGE_ERROR, Code.NOT_ENOUGH_REPLICAS, Code.REQUEST_TIMED_OUT]
PARTITIONS = 3


class Client:
    """One process of an application. `phase` is what it does next: join, sync, work; or what it waits for."""

    def __init__(self, name: str, world: World, *, static: bool) -> None:
        self.name = name
        self.world = world
        self.instance = name if static else None
        self.version = world.random.choice([8, 9] if static else [1, 3, 4, 9])
        self.member_id = ""
        self.generation = -1
        self.revision = 0
        self.phase = "join"
        self.leads: list[tuple[str, str]] | None = None
        self.asleep_until_ms = 0

    def metadata(self) -> bytes:
        return subscription("t") + f"|{self.revision}|{self.name}".encode()

    # --- what it asks ---

    def act(self, *, calm: bool = False) -> None:
        if self.phase == "join":
            self.join()
        elif self.phase == "sync":
            self.sync()
        elif self.phase == "work":
            self.work(calm=calm)
        elif not calm:
            self.lose_patience()

    def lose_patience(self) -> None:
        """While it waits, the connection may break, or an administrator may remove it."""
        chance = self.world.random.random()
        if chance < 0.05:
            self.phase = "join"
        elif chance < 0.15:
            self.phase = "sync" if self.phase == "syncing" else "join"
        elif chance < 0.2 and self.member_id:
            self.leave()

    def leave(self) -> None:
        leaving = [LeavingMember(member_id=self.member_id, group_instance_id=self.instance)]
        self.world.ask(self, "left", LeaveGroupRequest(group_id="g", members=leaving))
        self.world.gone(self)

    def join(self) -> None:
        self.phase = "joining"
        request = join_request(
            self.member_id,
            group_instance_id=self.instance,
            metadata=self.metadata(),
            session_timeout_ms=self.world.session_ms,
            rebalance_timeout_ms=self.world.rebalance_ms,
        )
        self.world.ask(self, "joined", request, self.version)

    def sync(self) -> None:
        self.phase = "syncing"
        plan = None
        if self.leads is not None:
            tag = self.world.new_plan(self.generation)
            plan = {member_id: f"{tag}:{name}".encode() for member_id, name in self.leads}
        request = sync_request(self.member_id, self.generation, plan, group_instance_id=self.instance)
        self.world.ask(self, "synced", request, 5)

    def work(self, *, calm: bool) -> None:
        chance = 0.0 if calm else self.world.random.random()
        if chance < 0.5:
            request = HeartbeatRequest(
                group_id="g",
                member_id=self.member_id,
                generation_id=self.generation,
                group_instance_id=self.instance,
            )
            self.world.ask(self, "beaten", request)
        elif chance < 0.8:
            self.world.commit(self, self.member_id, self.generation)
        elif chance < 0.85:
            self.revision += 1
            self.phase = "join"
        elif chance < 0.9:
            self.leave()
        elif chance < 0.95:
            self.asleep_until_ms = self.world.loop.now_ms + self.world.random.randrange(40_000)
        elif self.instance is not None:
            # Its former self may still be running somewhere.
            self.world.clients.append(Client(self.name, self.world, static=True))
        else:
            self.world.gone(self)

    # --- what it is told ---

    def joined(self, response: JoinGroupResponse) -> None:
        if self.phase != "joining":
            return
        self.refused(response.error_code)
        if response.error_code == Code.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        if response.error_code:
            return
        self.member_id, self.generation, self.phase = response.member_id, response.generation_id, "sync"
        self.world.check_generation(response)
        self.leads = None
        if response.leader == response.member_id and not response.skip_assignment:
            self.leads = [(one.member_id, name_in(one.metadata)) for one in response.members]

    def synced(self, response: SyncGroupResponse) -> None:
        if self.phase != "syncing":
            return
        self.refused(response.error_code)
        if not response.error_code:
            self.phase = "work"
            self.world.check_assignment(self, response.assignment)

    def beaten(self, response: Any) -> None:
        if self.phase == "work" and response.error_code:
            self.refused(response.error_code)

    def refused(self, error: int) -> None:
        if error:
            self.phase = "join"
        if error == Code.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if error == Code.FENCED_INSTANCE_ID:
            self.world.counts["fenced"] += 1
            self.world.gone(self)


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.session_ms = self.random.choice([6_000, 10_000])
        self.rebalance_ms = self.random.choice([5_000, 20_000])
        self.static_share = self.random.choice([0, 0.3, 1])
        settling = self.random.choice([4, 25])
        self.weights = {"arrive": 8, "wait": 15, "settle": settling, "restart": 1, "ghost": 4, "act": 50}
        delay_ms = self.random.choice([0, 1_000, 3_000])
        self.loop = Loop(GroupConfig(initial_rebalance_delay_ms=delay_ms, offsets_partition_count=1))
        self.loop.holding = True
        self.clients: list[Client] = []
        self.names = 0
        self.waiting: dict[int, tuple[Client, str, Any]] = {}
        self.generation_newest = 0
        self.leaders: dict[int, str] = {}
        self.plans: dict[str, int] = {}
        self.handed_out: dict[int, str] = {}
        self.synced: dict[int, set[str]] = {}
        self.told: dict[int, set[str]] = {}
        self.identities: list[tuple[Client, str, int]] = []
        self.log_checked = -1
        self.counts: Counter[str] = Counter()

    # --- events ---

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.event()
            self.check()
        self.settle_down()

    def event(self) -> None:
        kind = self.random.choices([*self.weights], [*self.weights.values()])[0]
        awake = [one for one in self.clients if one.asleep_until_ms <= self.loop.now_ms]
        if kind == "arrive" and len(self.clients) < 6:
            self.names += 1
            static = self.random.random() < self.static_share
            self.clients.append(Client(f"c{self.names}", self, static=static))
        elif kind == "wait":
            self.loop.advance(self.random.choice([10, 500, 1_000, 3_000, 6_000]))
        elif kind == "settle" and self.loop.pending:
            failed = self.random.random() < 0.1
            self.counts["failed appends"] += failed
            self.loop.settle(self.random.choice(FAILURES) if failed else Code.NONE)
        elif kind == "restart":
            self.restart()
        elif kind == "ghost" and self.identities:
            self.commit(*self.random.choice(self.identities))
        elif kind == "act" and awake:
            self.random.choice(awake).act()
        self.deliver()

    def restart(self) -> None:
        """The broker dies: of the appends under way the first few are in the log, though nobody was told."""
        for append in list(self.loop.pending)[: self.random.randrange(3)]:
            self.loop.log += [(append.partition, record) for record in append.records]
        self.counts["restarts"] += 1
        self.waiting.clear()
        self.loop.restart()
        self.log_checked = -1
        for client in self.clients:
            if client.phase in ("joining", "syncing"):
                client.phase = "join"
        if self.random.random() < 0.3:
            self.clients = self.random.sample(self.clients, len(self.clients) // 2)
        self.generation_newest = 0
        self.leaders.clear()
        group = self.group()
        if group is not None:
            self.generation_newest = group.generation
            self.synced[group.generation] = {name_of(one) for one in group.members.values()}

    def ask(self, client: Client, answer: str, request: Any, version: int | None = None) -> None:
        # Noted first: the answer may come within the call.
        ticket = self.loop.send(request, version, client.name)
        self.waiting[ticket] = client, answer, request

    def commit(self, client: Client, member_id: str, generation: int) -> None:
        """Commit in the name of a member; ghosts use any id and generation that was ever handed out."""
        partition, offset = self.random.randrange(PARTITIONS), self.random.randrange(1_000_000)
        request = commit_request(
            offset, member_id, generation, partition=partition, group_instance_id=client.instance
        )
        group = self.group()
        allowed = (
            group is not None
            and member_id in group.members
            and generation == group.generation >= self.generation_newest
            and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE)
        )
        ghost = (client.member_id, client.generation) != (member_id, generation)
        ticket = self.loop.send(request, 9, client.name)
        answer = f"{'allowed' if allowed else 'forbidden'} commit{' of a ghost' if ghost else ''}"
        self.waiting[ticket] = client, answer, request

    def deliver(self) -> None:
        """Hand the replies over, in their order."""
        for ticket, response in list(self.loop.replies.items()):
            if ticket in self.waiting:
                client, answer, request = self.waiting.pop(ticket)
                if "commit" in answer:
                    self.check_commit(request, response, allowed=answer.startswith("allowed"))
                    if not answer.endswith("ghost"):
                        client.beaten(response.topics[0].partitions[0])  # type: ignore[attr-defined]
                elif answer != "left":
                    self.note(client, request, response)
                    getattr(client, answer)(response)
        self.loop.replies.clear()

    def note(self, client: Client, request: Any, response: Response) -> None:
        if isinstance(response, SyncGroupResponse) and not response.error_code:
            self.synced.setdefault(request.generation_id, set()).add(client.name)
        if isinstance(response, JoinGroupResponse) and not response.error_code:
            self.told.setdefault(response.generation_id, set()).add(response.member_id)
            self.identities.append((client, response.member_id, response.generation_id))

    def gone(self, client: Client) -> None:
        if client in self.clients:
            self.clients.remove(client)

    def new_plan(self, generation: int) -> str:
        tag = f"plan{len(self.plans)}"
        self.plans[tag] = generation
        return tag

    # --- checks ---

    def group(self) -> Any:
        return self.loop.coordinator._registry.classic_group("g")

    def check_generation(self, response: JoinGroupResponse) -> None:
        """One generation at a time, with one leader."""
        generation = response.generation_id
        assert generation >= self.generation_newest, "an old generation was handed out"
        self.counts["generations"] += generation > self.generation_newest
        self.generation_newest = generation
        # A static leader that comes back has another id, but the same name.
        leader = response.leader.split("-")[0]
        assert self.leaders.setdefault(generation, leader) == leader, "two leaders in one generation"

    def check_assignment(self, client: Client, assignment: bytes) -> None:
        """What is handed out is what this generation's leader handed in, the same plan for all, for ever."""
        self.counts["assignments"] += 1
        tag, name = assignment.decode().split(":")
        assert name == client.name
        assert self.plans[tag] == client.generation
        assert self.handed_out.setdefault(client.generation, tag) == tag, "two plans for one generation"

    def check_commit(self, request: Any, response: Any, *, allowed: bool) -> None:
        """Who commits is of the newest generation, and who was told so finds it in the log."""
        if not response.topics[0].partitions[0].error_code:
            assert allowed, "a member of an older generation, or without assignment, committed"
            offset = request.topics[0].partitions[0].committed_offset
            assert any(struct.pack(">q", offset) in (record.value or b"") for _, record in self.loop.log)
            self.counts["commits"] += 1

    def check(self) -> None:
        self.counts["checks"] += 1
        if len(self.loop.log) != self.log_checked or self.counts["checks"] % 5 == 0:
            self.log_checked = len(self.loop.log)
            stored = read_log(self.loop.log)
            assert fetch_all(self.loop) == stored, "fetch does not return what the log holds"
            self.loop.replies.clear()
        group = self.group()
        if group is None:
            return
        if group.state is GroupState.STABLE:
            self.check_stable(group)
        if group.state is GroupState.COMPLETING_REBALANCE:
            dynamic = {key for key, one in group.members.items() if one.instance_id is None}
            assert dynamic <= self.told[group.generation], "a member that did not join is in the generation"
        assert (group.state is GroupState.EMPTY) <= (not group.members)
        assert group.leader is None or group.leader in group.members
        instances = [one.instance_id for one in group.members.values() if one.instance_id]
        assert len(instances) == len(set(instances)), "one instance twice"

    def check_stable(self, group: Any) -> None:
        """The members are those who synced, and the log has them with what they were given."""
        members = {name_of(one) for key, one in group.members.items() if key not in group.pending_syncs}
        waiting = {client.name for client, answer, _ in self.waiting.values() if answer == "synced"}
        assert members <= self.synced.get(group.generation, set()) | waiting
        if not self.loop.pending:
            stored = self.loop.coordinator._store.generation("g")
            assert stored is not None
            assert (stored.generation, stored.leader) == (group.generation, group.leader)
            assert {one.member_id: one.assignment for one in stored.members} == {
                one.member_id: one.assignment for one in group.members.values()
            }, "a restart would find another group"

    def settle_down(self) -> None:
        """Without further faults every rebalance ends, with all clients in, and nobody waits any more."""
        for client in self.clients:
            client.asleep_until_ms = 0
        for _ in range(150):
            for client in list(self.clients):
                client.act(calm=True)
            while self.loop.pending:
                self.loop.settle()
            self.deliver()
            self.check()
            if self.settled():
                return
            self.loop.advance(1_000)
            self.deliver()
        group = self.group()
        phases = {one.name: one.phase for one in self.clients}
        raise AssertionError(
            f"no end: group {group and group.state}, clients {phases}, waiting {self.waiting}"
        )

    def settled(self) -> bool:
        group = self.group()
        if not self.clients:
            return group is None or group.state is GroupState.EMPTY
        return (
            group is not None
            and group.state is GroupState.STABLE
            and {one.phase for one in self.clients} == {"work"}
            and {one.member_id for one in self.clients} == set(group.members)
            and {one.generation for one in self.clients} == {group.generation}
            and not self.waiting
        )


def name_of(member: Any) -> str:
    return name_in(next(iter(member.protocols.values())))


def name_in(metadata: bytes) -> str:
    return metadata.decode("latin-1").split("|")[-1]


def read_log(log: list[tuple[int, Record]]) -> dict[tuple[str, int], int]:
    """The committed offsets, by a reader that shares nothing with the coordinator's."""
    last = {record.key: record.value for _, record in log if record.key.startswith(b"\0\1\0\1g\0\1t")}
    found = {struct.unpack(">i", key[-4:])[0]: value for key, value in last.items() if value is not None}
    return {("t", partition): struct.unpack_from(">q", value, 2)[0] for partition, value in found.items()}

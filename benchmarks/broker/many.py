"""Many members of a group, and many connections that do nothing: their cost, and how long a heartbeat takes.

1,000 members have 10 partitions and a connection each (`--quick`: 200 members), in a group of either kind.
They send a heartbeat every 3 s and commit their offsets every 5 s, spread evenly, as Kafka's consumers do by
default. A heartbeat counts from when it is sent to its answer. 10,000 connections that do nothing are opened
(`--quick`: 1,000), 200 members join beside them, and all are answered at the end.
"""

from __future__ import annotations

import contextlib
import selectors
import time
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from benchmarks.broker.contenders import MeasureOf, compared, ottla
from benchmarks.broker.idle_clients import IdleClients
from benchmarks.broker.kafka import running
from benchmarks.broker.lines import Line
from benchmarks.broker.load import TIMEOUT_S
from benchmarks.broker.members import COMMIT_VERSION, KINDS, Members
from benchmarks.broker.processes import Contender, Server, allow_connections
from benchmarks.broker.topics import create_large
from benchmarks.cpu_time import TICK_S
from benchmarks.harness import FULL, Better, Case, Effort, Measure, benchmark, growth, noted
from tools.peer_cache import KAFKA_4

MEMBERS, FEW_MEMBERS, PARTITIONS_EACH = 1_000, 200, 10
IDLE, FEW_IDLE = 10_000, 1_000
HEARTBEAT_S, COMMIT_S, ROUND_S = 3.0, 5.0, 15.0
LIMIT_MS, LIMIT_MB = 50.0, 500.0
GROWTH_LIMIT = 1.2
WAIT = "group.initial.rebalance.delay.ms=3000"
"""How long a new group waits for more members: Kafka's default."""
CREATE_S = 300


class _Group(contextlib.ExitStack):
    """A group on each server that is asked for it."""

    def __init__(self, kind: str, count: int) -> None:
        super().__init__()
        self._kind, self._count = kind, count
        self._members: dict[Server, Members] = {}

    def joined_cpu_s(self, server: Server) -> Measure:
        """Make a topic, and measure how all members get their partitions of it."""

        def measure() -> float:
            topic = f"members-{uuid.uuid4().hex[:8]}"
            create_large(server.bootstrap, topic, self._count * PARTITIONS_EACH, CREATE_S)
            members = KINDS[self._kind](server.address, topic, topic, self._count, PARTITIONS_EACH)
            self._members[server] = self.enter_context(members)
            before = server.cpu_seconds()
            members.join()
            return max(server.cpu_seconds() - before, TICK_S)

        return measure

    def heartbeat_p99_ms(self, server: Server) -> Measure:
        """Let the members live for ROUND_S."""

        def measure() -> float:
            taken = sorted(_heartbeats_s(self._members[server]))
            return taken[int(0.99 * len(taken))] * 1000

        return measure


class _Request(NamedTuple):
    """What a member asks at a time, in seconds from the beginning."""

    at_s: float
    member: int
    is_heartbeat: bool


def _heartbeats_s(members: Members) -> list[float]:
    """How long each heartbeat took; none waits for the answer to another member's."""
    due = deque(sorted(_schedule(len(members.members))))
    sent: dict[Line, deque[tuple[_Request, float]]] = {member.line: deque() for member in members.members}
    taken: list[float] = []
    with selectors.DefaultSelector() as selector:
        for line in sent:
            selector.register(line.socket, selectors.EVENT_READ, line)
        start = time.perf_counter()
        while due or any(sent.values()):
            now_s = time.perf_counter() - start
            if now_s > ROUND_S + TIMEOUT_S:
                raise TimeoutError(f"{sum(map(len, sent.values()))} requests of members have no answer")
            while due and due[0].at_s <= now_s:
                request = due.popleft()
                line = members.members[request.member].line
                sent[line].append((request, time.perf_counter()))
                _send(members, request)
            for key, _ in selector.select(max(due[0].at_s - now_s, 0) if due else 1):
                for answer in key.data.arrived():
                    request, sent_at = sent[key.data].popleft()
                    if request.is_heartbeat:
                        taken.append(time.perf_counter() - sent_at)
                    _check(answer, is_heartbeat=request.is_heartbeat)
    return taken


def _schedule(count: int) -> Iterator[_Request]:
    for period_s, is_heartbeat in ((HEARTBEAT_S, True), (COMMIT_S, False)):
        for number in range(int(ROUND_S / period_s * count)):
            yield _Request(number * period_s / count, number % count, is_heartbeat)


def _send(members: Members, request: _Request) -> None:
    member = members.members[request.member]
    if request.is_heartbeat:
        member.line.send(members.heartbeat(member), members.heartbeat_version)
    else:
        member.line.send(members.commit(member), COMMIT_VERSION)


def _check(answer: Any, *, is_heartbeat: bool) -> None:
    codes = [answer.error_code] if is_heartbeat else [it.error_code for it in answer.topics[0].partitions]
    if any(codes):
        raise RuntimeError(f"a member was answered with errors {set(codes)}")


@benchmark("broker-members")
def members(effort: Effort) -> Iterator[Case]:
    """Groups of both kinds at three sizes, and the heartbeats of the largest."""
    most = MEMBERS if effort is FULL else FEW_MEMBERS
    allow_connections(2 * MEMBERS)
    for kind in KINDS:
        cpu_s: dict[int, list[float]] = {}
        # New servers for each kind: the partitions of both are more mapped files than Linux allows Kafka.
        with ottla(WAIT) as ours, running(KAFKA_4) as peer:
            for count in (most // 25, most // 5, most):
                cpu_s[count] = []
                with _Group(kind, count) as group:
                    name = f"{kind}: {count:,} members with {PARTITIONS_EACH} partitions each join"
                    case = _once(name, "CPU s of the server", group.joined_cpu_s, ours, peer)
                    yield replace(case, ours=noted(case.ours, cpu_s[count]))
                    if count == most:
                        name = f"p99 of heartbeats, {kind} of {count:,} members"
                        yield _once(name, "ms", group.heartbeat_p99_ms, ours, peer, LIMIT_MS)
                        name = f"resident memory with a {kind} of {count:,} members"
                        yield _once(name, "MB", _resident_mb, ours, peer)
        yield growth(f"the joining of a {kind}", cpu_s, GROWTH_LIMIT)


class _Idle(contextlib.ExitStack):
    """Connections to each server that is asked for them."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count
        self._clients: dict[Server, IdleClients] = {}

    def more_mb(self, server: Server) -> Measure:
        """Open them, and see what that adds."""

        def measure() -> float:
            before = server.resident_mb()
            self._clients[server] = self.enter_context(IdleClients(server.address, self._count))
            return server.resident_mb() - before

        return measure

    def answers(self, server: Server) -> Measure:
        """How many are still answered."""
        return lambda: self._clients[server].answered()


@benchmark("broker-connections")
def connections(effort: Effort) -> Iterator[Case]:
    """Connections that do nothing, at three sizes, and the heartbeats of a group beside the most."""
    most = IDLE if effort is FULL else FEW_IDLE
    allow_connections(most + FEW_MEMBERS)
    settings = WAIT, f"max.connections={most + 2 * FEW_MEMBERS}"
    more_mb: dict[int, list[float]] = {}
    for count in (most // 100, most // 10, most):
        more_mb[count] = []
        with (
            ottla(*settings) as ours,
            running(KAFKA_4) as peer,
            _Idle(count) as idle,
            _Group(*_BESIDE) as group,
        ):
            name = f"resident memory that {count:,} idle connections add"
            case = _once(name, "MB", idle.more_mb, ours, peer, LIMIT_MB)
            yield replace(case, ours=noted(case.ours, more_mb[count]))
            if count < most:
                continue
            beside = f"beside {count:,} idle connections"
            name = f"{FEW_MEMBERS} members with {PARTITIONS_EACH} partitions each join {beside}"
            yield _once(name, "CPU s of the server", group.joined_cpu_s, ours, peer)
            name = f"p99 of heartbeats of {FEW_MEMBERS} members {beside}"
            yield _once(name, "ms", group.heartbeat_p99_ms, ours, peer, LIMIT_MS)
            name = f"answers to {count:,} connections that were idle"
            yield _once(name, "connections", idle.answers, ours, peer, count, Better.MORE)
    yield growth("the memory of idle connections", more_mb, GROWTH_LIMIT)


_BESIDE = ("classic group", FEW_MEMBERS)


def _resident_mb(server: Server) -> Measure:
    return server.resident_mb


def _once(
    name: str,
    unit: str,
    measure_of: MeasureOf,
    ours: Server,
    peer: Contender,
    limit: float | None = None,
    better: Better = Better.LESS,
) -> Case:
    """What happens once cannot be measured in rounds."""
    return compared(
        name, unit, measure_of, ours, [peer], rounds=1, better=better, limit=limit, is_warmed=False
    )

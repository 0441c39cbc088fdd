"""A group whose members come, leave, are killed and stopped while a topic is written and read.

python -m tests.consumer.coordinated.churn [--strategy range] [--offsets kafka] [--seed 7] [--events 30] …

The proof at its full size: 50 members in 10 processes, 64 partitions, 1,000,000 messages. With offsets in
Kafka, processes with members by librdkafka, Java and franz-go alternate with ours (--clients); in a group in
ZooKeeper (--strategy zookeeper) those by Kafka 0.9's high-level consumer. It prints what happened and ends
with 1 if a check fails, or if the group was not stable in time after the last fault (`settled_by_s`).
`test_churn` runs it in the suite, where nothing is said about seconds.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow as pa

from ottla import Admin, EmbeddedBroker, Producer, TopicAndPartition
from ottla.admin import GroupMember, NewTopic
from ottla.model.closing import Closing
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.offsets import OffsetLedger
from ottla.zookeeper import paths
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.recipes import children_if_present
from ottla.zookeeper.zookeeper_errors import SessionLost, ZooKeeperConnectionLost
from tests.broker.share_groups.share_member import configure_group
from tests.consumer.classic.reading import owners
from tests.consumer.coordinated.foreign_members import PROGRAMS, ProgramLine
from tests.consumer.coordinated.member_process import (
    GROUP,
    LIBRDKAFKA,
    REBALANCE_BACKOFF_MS,
    SHARE,
    TABLES,
    TOPIC,
    ZOOKEEPER,
    Settings,
    connected,
)
from tests.forked_processes import ForkedProcesses
from tests.proof.checker import History, Ownership, anomalies
from tests.real_servers import fast_zookeeper
from tests.waiting import wait_for
from tools.peers import RealKafka

OURS = "ours"
CLIENTS = (OURS, LIBRDKAFKA, "java", "franz-go")
SCALA = "scala"
ZOOKEEPER_CLIENTS = (OURS, SCALA)
SETTLES_WITHIN_S = 5.0
PATIENCE_S = 180.0
"""Far above what anything takes: who waits so long has failed."""


@dataclass(frozen=True)
class Scale:
    """How much of it."""

    processes: int = 10
    members_each: int = 5
    partitions: int = 64
    messages: int = 1_000_000
    events: int = 25
    session_timeout_ms: int = 3_000


@dataclass
class Outcome:
    """What there is to say about a run."""

    events: dict[str, int]
    generations: int = 0
    settled_s: float = 0.0
    seconds: float = 0.0
    again: int = 0  # messages that were read more than once

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.events.items()))
        return (
            f"{counts}; {self.generations} generations; stable {self.settled_s:.1f} s after the last fault; "
            f"{self.again} messages read again; {self.seconds:.0f} s in all"
        )


class Processes(ForkedProcesses):
    """Processes with members by these clients, in turns."""

    def __init__(self, settings: Settings, clients: Sequence[str]) -> None:
        super().__init__("tests.consumer.coordinated.member_process", settings.json())
        self._settings = settings
        self._clients = clients
        self._count = 0
        self._programs: list[MemberProgram] = []

    def join(self) -> None:
        """Start a process of the client whose turn it is."""
        client = self._clients[self._count % len(self._clients)]
        self._count += 1
        name = f"{client}-{self._count}"
        if client in PROGRAMS:
            program = MemberProgram(PROGRAMS[client], name, self._settings)
            self._programs.append(program)
            self.adopt(program.pid)
        else:
            self.start(name)

    def close(self) -> None:
        """Kill all."""
        super().close()
        for program in self._programs:
            program.close()


class MemberProgram:
    """A program with several members. A thread writes what they print into the database."""

    def __init__(self, command: Callable[..., list[str]], name: str, settings: Settings) -> None:
        numbers = f"{settings.members_each}", f"{settings.session_timeout_ms}"
        arguments = settings.zookeeper or settings.bootstrap, GROUP, TOPIC, settings.strategy, *numbers
        self._process = subprocess.Popen(
            command(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.pid = self._process.pid
        self._name = name
        self._database = settings.database
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        """A last line that is cut was not committed: others read the records again."""
        pipe = self._process.stdout
        assert isinstance(pipe, io.BufferedReader)
        rest = b""
        with closing(connected(self._database)) as database:
            while text := pipe.read1(READ_BYTES):
                *lines, rest = (rest + text).split(b"\n")
                self._insert(database, [ProgramLine.of(line) for line in lines])

    def _insert(self, database: sqlite3.Connection, lines: list[ProgramLine]) -> None:
        """Lines of messages that follow each other become one row."""
        spans: list[ProgramLine] = []
        for line in lines:
            if line.held is None and spans and spans[-1][:4] == line[:4] and spans[-1].next == line.first:
                spans[-1] = spans[-1]._replace(next=line.next)
            elif line.held is None:
                spans.append(line)
        read = [
            (one.partition, one.first, one.next, one.next - one.first, 0, one.generation, self._member(one))
            for one in spans
        ]
        given = [
            (line.generation, partition, self._member(line))
            for line in lines
            for partition in line.held or ()
        ]
        with database:
            database.executemany("INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?)", read)
            database.executemany("INSERT INTO given VALUES (?, ?, ?)", given)

    def _member(self, line: ProgramLine) -> str:
        return f"{self._name}-{line.member}"

    def close(self) -> None:
        """Wait for its end: it was killed."""
        self._process.wait(PATIENCE_S)
        self._thread.join(PATIENCE_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


READ_BYTES = 1 << 16
BUSY = 2.0
"""With so much more work than processors a machine is late, and not the group: that is told, not judged."""
FAULTS = {"leave": signal.SIGTERM, "kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Churn(Closing):
    """One run on a broker of its own."""

    def __init__(
        self, settings: Settings, scale: Scale, chance: random.Random, clients: Sequence[str]
    ) -> None:
        self._scale = scale
        self._chance = chance
        self._own_offsets = settings.own_offsets
        self._is_share = settings.strategy == SHARE
        self._zookeeper = settings.zookeeper
        self._producer = Producer(bootstrap_servers=settings.bootstrap)
        self._admin = Admin(bootstrap_servers=settings.bootstrap)
        self._admin.create_topics(NewTopic(TOPIC, scale.partitions))
        self._database = connected(settings.database)
        for statement in TABLES:
            self._database.execute(statement)
        OffsetLedger(self._database, group_id=GROUP).create_table()
        self._written = 0
        self.processes = Processes(settings, clients)
        self.outcome = Outcome(dict.fromkeys((*FAULTS, "join", "go on"), 0))

    def run(self) -> Outcome:
        began = time.monotonic()
        for _ in range(self._scale.processes):
            self._happen("join")
        wait_for(self._is_stable, self._state, PATIENCE_S, pause=0.05)
        slice_size = self._scale.messages // (self._scale.events + 1)
        for _ in range(self._scale.events):
            self._write(slice_size)
            self._happen(self._chance.choice(self._possible()))
            time.sleep(self._chance.uniform(0, self._scale.session_timeout_ms / 2000))
        self._end_with_a_fault()
        wait_for(lambda: self._read_count() >= self._written, self._state, PATIENCE_S, pause=0.05)
        self._check()
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    # --- what happens

    def _possible(self) -> list[str]:
        """A third may be missing at a time, and one process more than usual may be there."""
        running, usual = len(self.processes.running), self._scale.processes
        kinds = [*FAULTS] if running > max(1, usual * 2 // 3) else []
        kinds += ["join", "join"] if running <= usual else []
        return kinds + ["go on"] * (2 * len(self.processes.stopped))

    def _happen(self, kind: str) -> None:
        self.outcome.events[kind] += 1
        if kind == "join":
            self.processes.join()
        elif kind == "go on":
            self.processes.go_on(self._chance.choice(self.processes.stopped))
        else:
            # Stopped inside of a transaction, a process would lock the database for all others.
            self._database.execute("BEGIN IMMEDIATE")
            self.processes.send(self._chance.choice(self.processes.running), FAULTS[kind])
            self._database.rollback()

    def _end_with_a_fault(self) -> None:
        """All are there and one process more, which is killed or stopped while there is something to read."""
        while self.processes.stopped:
            self._happen("go on")
        while len(self.processes.running) > self._scale.processes + 1:
            self._happen("leave")
        while len(self.processes.running) < self._scale.processes + 1:
            self._happen("join")
        wait_for(self._is_stable, self._state, PATIENCE_S, pause=0.05)
        self._write(self._scale.messages - self._written)
        self._happen(self._chance.choice(["kill", "stop"]))
        fault = time.monotonic()
        wait_for(self._is_stable, self._state, PATIENCE_S, pause=0.05)
        self.outcome.settled_s = time.monotonic() - fault

    def _write(self, count: int) -> None:
        numbers = np.arange(self._written, self._written + count, dtype=np.int64)
        value = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), count, [None, pa.py_buffer(numbers)])
        partition = pa.array((numbers % self._scale.partitions).astype(np.int32))
        table = pa.table({"value": value.cast(pa.binary()), "partition": partition})
        self._producer.send_batch(TOPIC, table).result(PATIENCE_S)
        self._written += count

    # --- what is looked at

    def _is_stable(self) -> bool:
        """Whether the group has exactly the members that run, and each partition has one of them.

        In a share group it may have several.
        """
        if self._zookeeper:
            with suppress(
                ZooKeeperConnectionLost, SessionLost
            ):  # the test's own session has a hard time, too
                return self._is_stable_in_zookeeper()
            return False
        members = self._stable_members()
        given = sorted(place.partition for member in members for place in member.assignment)
        if self._is_share:
            given = sorted(set(given))
        expected = len(self.processes.running) * self._scale.members_each
        return len(members) == expected and given == list(range(self._scale.partitions))

    def _is_stable_in_zookeeper(self) -> bool:
        with KazooZooKeeperSession(KazooSettings(self._zookeeper)) as session:
            members = children_if_present(session, paths.consumer_ids(GROUP))
            found = owners(session, GROUP, TOPIC)
        expected = len(self.processes.running) * self._scale.members_each
        # An owner is a member and the number of its stream.
        is_owned = {owner.rpartition("-")[0] for owner in found.values()} <= set(members)
        return is_owned and len(members) == expected and len(found) == self._scale.partitions

    def _stable_members(self) -> tuple[GroupMember, ...]:
        """None while the group rebalances, and none of a group in ZooKeeper."""
        if self._zookeeper:
            return ()
        try:
            told = self._admin.describe_groups(GROUP)
        except KafkaError as error:
            if error.code == Code.GROUP_ID_NOT_FOUND:
                return ()  # nobody has come yet
            raise
        return told.members if told.state == "Stable" else ()

    def _state(self) -> str:
        return (
            f"{self._group_state()}, of {len(self.processes.running)} processes; "
            f"{self._read_count()} of {self._written} messages are read; {self.outcome}"
        )

    def _group_state(self) -> str:
        if not self._zookeeper:
            return f"{len(self._stable_members())} members are stable"
        with KazooZooKeeperSession(KazooSettings(self._zookeeper)) as session:
            members = sorted(children_if_present(session, paths.consumer_ids(GROUP)))
            found = owners(session, GROUP, TOPIC)
        return f"registered: {', '.join(members)}; owners: {', '.join(map(str, sorted(found.items())))}"

    def _read_count(self) -> int:
        """Distinct messages: what was read twice counts once."""
        return sum(len_of(self._spans(partition)) for partition in range(self._scale.partitions))

    def _spans(self, partition: int) -> list[tuple[int, int]]:
        query = "SELECT first, next FROM results WHERE partition = ? ORDER BY first, next"
        return self._database.execute(query, (partition,)).fetchall()

    def _check(self) -> None:
        count, total = self._database.execute("SELECT sum(rows), sum(total) FROM results").fetchone()
        self.outcome.again = count - self._written
        assert self._read_count() == self._written, "a message was not read"
        if self._own_offsets:
            assert count == self._written, f"{count} messages were stored of {self._written}"
            assert total == self._written * (self._written - 1) // 2, "other messages were stored"
        # Who was given a partition in a generation, and who read it, is one member.
        columns = "SELECT DISTINCT generation, partition, member FROM"
        rows = self._database.execute(f"{columns} given UNION {columns} results").fetchall()
        owned = [
            Ownership(GROUP, TopicAndPartition(TOPIC, partition), str(member), generation)
            for generation, partition, member in rows
        ]
        times = "SELECT partition, member, since, max(until) FROM held GROUP BY partition, member, since"
        owned += [
            Ownership(GROUP, TopicAndPartition(TOPIC, partition), member, -1, since, until)
            for partition, member, since, until in self._database.execute(times)
        ]
        wrong = anomalies(History(owners=owned))
        assert not wrong, "\n".join([*wrong, "what these partitions saw:", *self._evidence(wrong)])
        (last,) = self._database.execute("SELECT max(generation) FROM given").fetchone()
        self.outcome.generations = last or 0  # a share group has none

    def _evidence(self, wrong: list[str]) -> list[str]:
        """What was noted of the partitions that lines of the checker name, in the order in which it came."""
        partitions = {int(line.split(" of ")[0].rsplit("-", 1)[1]) for line in wrong}
        lines = []
        for table, columns in (("given", "'held'"), ("results", "first || ' to ' || next")):
            query = f"SELECT rowid, partition, generation, member, {columns} FROM {table} ORDER BY rowid"
            for number, partition, generation, member, what in self._database.execute(query):
                if partition in partitions:
                    lines.append(f"  {TOPIC}-{partition} {table} {number}: {member} in {generation}: {what}")
        return lines

    def close(self) -> None:
        """End the members and the clients."""
        self.processes.close()
        self._producer.close()
        self._admin.close()
        self._database.close()


def len_of(spans: list[tuple[int, int]]) -> int:
    """How many offsets are in some of the spans, which are sorted."""
    count = end = 0
    for first, behind in spans:
        count += max(0, behind - max(first, end))
        end = max(end, behind)
    return count


def churn(
    scale: Scale, strategy: str, *, own_offsets: bool, seed: int, kafka: str = "", clients: Sequence[str]
) -> Outcome:
    """Run and check, on the embedded broker or on a version of Apache Kafka; an error names the seed."""
    properties = {
        "group.min.session.timeout.ms": "100",
        "group.consumer.session.timeout.ms": f"{scale.session_timeout_ms}",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.heartbeat.interval.ms": f"{scale.session_timeout_ms // 8}",
        "group.consumer.min.heartbeat.interval.ms": "10",
        "group.share.session.timeout.ms": f"{scale.session_timeout_ms}",
        "group.share.min.session.timeout.ms": "100",
        "group.share.heartbeat.interval.ms": f"{scale.session_timeout_ms // 8}",
        "group.share.min.heartbeat.interval.ms": "10",
        "group.share.record.lock.duration.ms": "10000",
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.delivery.count.limit": "10",
    }
    try:
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            zookeeper = ""
            if strategy == ZOOKEEPER:
                zookeeper = stack.enter_context(fast_zookeeper(Path(directory, "zookeeper"))).connect
                properties |= {"zookeeper.connect": zookeeper}
            broker: RealKafka | EmbeddedBroker
            if kafka:
                broker = stack.enter_context(RealKafka(kafka, properties=properties))
            else:
                broker = stack.enter_context(EmbeddedBroker(properties=properties))
            settings = Settings(
                broker.bootstrap,
                f"{directory}/results.db",
                strategy,
                own_offsets,
                scale.members_each,
                scale.session_timeout_ms,
                zookeeper,
            )
            if strategy == SHARE:
                configure_group(broker.bootstrap, GROUP)  # from the earliest records on
            with Churn(settings, scale, random.Random(seed), clients) as one:
                return one.run()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def settled_by_s(scale: Scale, clients: Sequence[str]) -> float:
    """Until when after the last fault the group has to be stable: the end of a session, and 5 s.

    Each member of the process that is gone has a session of its own. Its end makes all others rebalance, and
    those of Kafka 0.9 pause for rebalance.backoff.ms after each attempt in which another one blocks them.
    """
    pauses = scale.members_each if SCALA in clients else 0
    return (scale.session_timeout_ms + pauses * REBALANCE_BACKOFF_MS) / 1000 + SETTLES_WITHIN_S


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.consumer.coordinated.churn")
    parser.add_argument("--strategy", default="cooperative-sticky")
    parser.add_argument("--offsets", choices=["own", "kafka"], default="own")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--kafka", default="", metavar="VERSION")
    parser.add_argument(
        "--clients", default="", help=f"some of {', '.join(CLIENTS)}; all if Kafka has offsets; or {SCALA}"
    )
    for field in fields(Scale):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, default=field.default)
    given = vars(parser.parse_args())
    scale = Scale(**{field.name: given[field.name] for field in fields(Scale)})
    chosen = {name: given[name] for name in ("strategy", "seed", "kafka")}
    sys.stdout.write(f"{chosen}, offsets: {given['offsets']}, {scale}\n")
    sys.stdout.flush()
    own_offsets = given["offsets"] == "own" and given["strategy"] != ZOOKEEPER
    usual = ZOOKEEPER_CLIENTS if given["strategy"] == ZOOKEEPER else [OURS] if own_offsets else CLIENTS
    clients = given["clients"].split(",") if given["clients"] else usual
    if given["strategy"] == SHARE:
        clients = [client for client in clients if client != "franz-go"]  # its program has no share groups
    outcome = churn(scale, own_offsets=own_offsets, clients=clients, **chosen)
    limit_s = settled_by_s(scale, clients)
    is_in_time = outcome.settled_s <= limit_s
    sys.stdout.write(f"{outcome}{'' if is_in_time else f': LATE, more than {limit_s:.1f} s'}\n")
    is_busy = os.getloadavg()[0] > BUSY * (os.cpu_count() or 1)
    return 0 if is_in_time or is_busy else 1


if __name__ == "__main__":
    raise SystemExit(main())

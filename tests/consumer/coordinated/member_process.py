"""Forks processes with members of a group, for tests that kill and stop them.

python -m tests.consumer.coordinated.member_process SETTINGS     (JSON, see `Settings`)

For each line of its input, a name, it forks a process with some members and prints its pid. Each member
writes what it is given and what it reads into the database; with SIGTERM all of a process leave.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import sys
import threading
import time
from dataclasses import asdict, dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Self

import confluent_kafka
import numpy as np

from ottla.client.clock import taken
from ottla.consumer.classic import ConsumerConnector
from ottla.consumer.coordinated import GroupConsumer, RebalanceListener
from ottla.consumer.coordinated.member_state import PartitionSet
from ottla.consumer.share import ShareConsumer
from ottla.model.errors import OwnershipLost, PartitionsLost
from ottla.offsets import OffsetLedger
from ottla.zookeeper.zookeeper_errors import SessionLost, ZooKeeperConnectionLost
from tests.forked_processes import fork_for_each_line

TOPIC, GROUP = "t", "g"
LIBRDKAFKA = "librdkafka"
"""Processes whose names begin so have members by it."""
NO_GENERATION = -1
TABLES = (
    "PRAGMA journal_mode = WAL",
    "CREATE TABLE results "
    "(partition INT, first INT, next INT, rows INT, total INT, generation INT, member TEXT)",
    "CREATE TABLE given (generation INT, partition INT, member TEXT)",
    "CREATE TABLE held (partition INT, member TEXT, since REAL, until REAL)",
)


CONSUMER, SHARE, ZOOKEEPER = "consumer", "share", "zookeeper"
"""Instead of a strategy: the consumer protocol (KIP-848), share groups (KIP-932), and groups in ZooKeeper."""
REBALANCE_BACKOFF_MS = 500
"""Of all members of a group in ZooKeeper; ScalaMember.java has the same."""


@dataclass(frozen=True)
class Settings:
    """What all members have in common. `own_offsets`: with the results, and not in Kafka.

    `zookeeper` is where a group in ZooKeeper is.
    """

    bootstrap: str
    database: str
    strategy: str
    own_offsets: bool
    members_each: int
    session_timeout_ms: int
    zookeeper: str = ""

    def json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(**json.loads(text))


def connected(path: str) -> sqlite3.Connection:
    """To a database that outlives any process, though not a power cut: nobody waits for a disk."""
    database = sqlite3.connect(path, timeout=120)
    database.execute("PRAGMA synchronous = OFF")
    return database


def _protocol(settings: Settings) -> dict[str, Any]:
    if settings.strategy == CONSUMER:
        return {"group_protocol": CONSUMER}
    return {
        "partition_assignment_strategy": settings.strategy,
        "session_timeout_ms": settings.session_timeout_ms,
        "heartbeat_interval_ms": settings.session_timeout_ms // 8,
    }


class ForeignWorker:
    """A member by librdkafka. Its generation is not known: -1."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._name = name
        self._ledger = OffsetLedger(connected(settings.database), group_id=GROUP)
        own = {name.replace("_", "."): value for name, value in _protocol(settings).items()}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": settings.bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **own,
            }
        )

    def run(self, leaving: threading.Event) -> None:
        self._consumer.subscribe([TOPIC])
        try:
            while not leaving.is_set():
                by_partition: dict[int, list[Any]] = {}
                for message in self._consumer.consume(2_000, 0.2):
                    if message.error() is None:
                        by_partition.setdefault(message.partition() or 0, []).append(message)
                for partition, messages in by_partition.items():
                    self._keep(partition, messages)
        finally:
            self._consumer.close()

    def _keep(self, partition: int, messages: list[Any]) -> None:
        """The results, and then the position in Kafka."""
        first, last = messages[0].offset(), messages[-1].offset()
        assert [message.offset() for message in messages] == list(range(first, last + 1)), "out of order"
        total = int(np.frombuffer(b"".join(message.value() for message in messages), np.int64).sum())
        row = (partition, first, last + 1, len(messages), total, NO_GENERATION, self._name)
        with self._ledger.transaction() as cursor:
            cursor.execute("INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        position = confluent_kafka.TopicPartition(TOPIC, partition, last + 1)
        with contextlib.suppress(confluent_kafka.KafkaException):  # others have it: the next poll tells
            self._consumer.commit(offsets=[position], asynchronous=False)


class Worker(RebalanceListener):
    """One member, in a thread of its own."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._database = connected(settings.database)
        self._ledger = OffsetLedger(self._database, group_id=GROUP)
        self._consumer = GroupConsumer(
            TOPIC,
            group_id=GROUP,
            bootstrap_servers=settings.bootstrap,
            auto_offset_reset="smallest",
            enable_auto_commit=False,
            listener=self,
            **_protocol(settings),
        )

    def run(self, leaving: threading.Event) -> None:
        with self._consumer:
            while not leaving.is_set():
                chunk = self._consumer.poll(0.2)
                if chunk is not None:
                    self._keep(chunk)

    def on_assigned(self, partitions: PartitionSet) -> None:
        generation = self._consumer.membership.generation
        rows = [(generation, place.partition, self._name) for place in partitions]
        with self._ledger.transaction() as cursor:
            cursor.executemany("INSERT INTO given VALUES (?, ?, ?)", rows)
        if self._settings.own_offsets:
            for place, offset in self._ledger.start(partitions).items():
                self._consumer.seek(place, offset)

    def _keep(self, chunk: Any) -> None:
        """Results and position in one transaction; or the results, and then the position in Kafka."""
        place, batch = chunk.topic_partition, chunk.batch
        numbers = np.frombuffer(b"".join(batch["value"].to_pylist()), np.int64)
        first, last = batch["offset"][0].as_py(), batch["offset"][-1].as_py()
        assert last - first + 1 == batch.num_rows, "out of order"
        row = (place.partition, first, last + 1, batch.num_rows, int(numbers.sum()))
        generation = self._consumer.membership.generation
        try:
            with self._ledger.transaction() as cursor:
                cursor.execute(
                    "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, generation, self._name)
                )
                if self._settings.own_offsets:
                    self._ledger.record(cursor, place, chunk.next_offset)
            if not self._settings.own_offsets:
                self._consumer.commit(chunk)
        except (OwnershipLost, PartitionsLost):
            pass  # others have it: the next poll tells


class ShareWorker:
    """A member of a share group, ours or librdkafka's: what it has read is kept before it is acknowledged."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._name = name
        self._ledger = OffsetLedger(connected(settings.database), group_id=GROUP)
        named = {"bootstrap.servers": settings.bootstrap, "group.id": GROUP}
        self._is_foreign = name.startswith(LIBRDKAFKA)
        self._consumer: Any = None
        if self._is_foreign:
            self._consumer = confluent_kafka.ShareConsumer(named)
            self._consumer.subscribe([TOPIC])
        else:
            self._consumer = ShareConsumer(TOPIC, named)

    def run(self, leaving: threading.Event) -> None:
        with contextlib.closing(self._consumer):
            while not leaving.is_set():
                for partition, offsets in self._read().items():
                    self._keep(partition, offsets)

    def _read(self) -> dict[int, list[int]]:
        found = self._consumer.poll(0.2)
        if not self._is_foreign:
            return {found.topic_partition.partition: found.batch["offset"].to_pylist()} if found else {}
        by_partition: dict[int, list[int]] = {}
        for message in found:
            if message.error() is None:
                by_partition.setdefault(message.partition(), []).append(message.offset())
        return by_partition

    def _keep(self, partition: int, offsets: list[int]) -> None:
        places = np.array(offsets)
        runs = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
        rows = [
            (partition, int(run[0]), int(run[-1]) + 1, len(run), 0, NO_GENERATION, self._name) for run in runs
        ]
        with self._ledger.transaction() as cursor:
            cursor.executemany("INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


class ZooKeeperWorker:
    """A member of a group in ZooKeeper. It notes when it surely had a partition: between two chunks."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._name = name
        self._ledger = OffsetLedger(connected(settings.database), group_id=GROUP)
        self._since: dict[int, float] = {}
        self._sessions = 0
        self._connector = ConsumerConnector(
            group_id=GROUP,
            consumer_id=name,
            zookeeper_connect=settings.zookeeper,
            zookeeper_session_timeout_ms=settings.session_timeout_ms,
            zookeeper_connection_timeout_ms=60_000,
            rebalance_backoff_ms=REBALANCE_BACKOFF_MS,
            rebalance_max_retries=100,
            auto_offset_reset="smallest",
            auto_commit_enable=False,
            fetch_wait_max_ms=50,
        )
        self._connector.set_consumer_rebalance_listener(self)

    def before_releasing_partitions(self, partition_ownership: dict[str, set[int]]) -> None:
        for partition in partition_ownership.get(TOPIC, ()):
            self._since.pop(partition, None)

    def before_starting_fetchers(self, *_: object) -> None:
        pass

    def run(self, leaving: threading.Event) -> None:
        with self._connector:
            (stream,) = self._connector.create_message_streams({TOPIC: 1})[TOPIC]
            while not leaving.is_set():
                before = time.monotonic()
                chunk = next(stream.chunks(timeout=0.2), None)
                if chunk is not None:
                    self._keep(chunk, before, time.monotonic())

    def _keep(self, chunk: Any, before: float, after: float) -> None:
        """The results, and then the position in ZooKeeper."""
        if self._connector.lost_sessions != self._sessions:
            self._sessions = self._connector.lost_sessions
            self._since.clear()
        partition, offsets = chunk.topic_partition.partition, chunk.batch["offset"]
        since = self._since.setdefault(partition, after)
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        assert last - first + 1 == len(offsets), "out of order"
        row = (partition, first, last + 1, len(offsets), 0, NO_GENERATION, self._name)
        with self._ledger.transaction() as cursor:
            cursor.execute("INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            if since < before:
                cursor.execute("INSERT INTO held VALUES (?, ?, ?, ?)", (partition, self._name, since, before))
        with contextlib.suppress(ZooKeeperConnectionLost, SessionLost):  # others may have it by now
            self._connector.commit(chunk)


def worker(settings: Settings, name: str) -> ForeignWorker | Worker | ShareWorker | ZooKeeperWorker:
    """A member by the client that the name of its process begins with."""
    if settings.strategy == SHARE:
        return ShareWorker(settings, name)
    if settings.strategy == ZOOKEEPER:
        return ZooKeeperWorker(settings, name)
    return (ForeignWorker if name.startswith(LIBRDKAFKA) else Worker)(settings, name)


def work(settings: Settings, name: str) -> None:
    """Run a process's members until SIGTERM. What ends one of them ends all."""
    leaving, signals = threading.Event(), SimpleQueue[int]()
    signal.signal(signal.SIGTERM, lambda number, _: signals.put(number))

    def run(number: int) -> None:
        try:
            worker(settings, f"{name}-{number}").run(leaving)
        except BaseException:  # noqa: BLE001 - whatever it is, the test must not wait for this member
            sys.excepthook(*sys.exc_info())
            os._exit(1)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(settings.members_each)]
    for thread in threads:
        thread.start()
    taken(signals)
    leaving.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    fork_for_each_line(partial(work, Settings.of(sys.argv[1])))

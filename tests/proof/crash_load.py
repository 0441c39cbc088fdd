"""Clients of a broker whose power will be cut: what they do and are told is noted between its writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest.mock import patch

from ottla import EmbeddedBroker, GroupMetadata, Producer, TopicAndPartition
from ottla.broker import cluster
from ottla.broker.storage.topic_store import TopicStore
from ottla.testing.simulation.disk import RecordingFiles
from ottla.wire.api.create_topics import CreateTopic, CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from tests.broker.faults.batches import LATER, batch
from tests.broker.faults.raw_client import CREATE_TOPICS, DELETE_TOPICS, RawClient
from tests.broker.faults.workloads import FIND_COORDINATOR, OFFSET_COMMIT, RETRY_LATER
from tests.proof.checker import Change, History, Outcome, Transaction, Write

SETTINGS = {
    "log.segment.bytes": "4000",
    "log.index.interval.bytes": "300",
    "log.flush.offset.checkpoint.interval.ms": "20",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "num.partitions": "2",
}
PLAIN, EXACT = "plain", "exact"
INPUT = TopicAndPartition("input", 0)
GROUP, EXACT_GROUP = "group", "exact group"
TIME = LATER - 3_000_000
PATIENCE_S = 60


class Sent(NamedTuple):
    """A batch is sent."""

    writer: str
    partition: TopicAndPartition
    values: tuple[str, ...]


class Acked(NamedTuple):
    """It was acknowledged; its first record has this offset."""

    values: tuple[str, ...]
    offset: int


class Ordered(NamedTuple):
    """A commit, a topic or its deletion is asked for."""

    key: tuple[str, str]
    value: int | None


class Done(NamedTuple):
    """The last order of this key was answered without an error."""

    key: tuple[str, str]


class Begun(NamedTuple):
    """A transaction begins."""

    transaction: Transaction


class Ended(NamedTuple):
    """The last transaction has ended."""

    outcome: Outcome


class Account:
    """What clients had done and been told up to some note."""

    def __init__(self) -> None:
        self._writes: dict[str, Write] = {}
        self._changes: dict[tuple[str, str], list[Change]] = {}
        self._transactions: list[Transaction] = []
        self._clock = 0

    def take(self, event: object) -> None:
        """Add the next event."""
        self._clock += 1
        match event:
            case Sent(writer, partition, values):
                for value in values:
                    self._writes[value] = Write(writer, partition, value, Outcome.UNKNOWN)
            case Acked(values, offset):
                for number, value in enumerate(values):
                    write = self._writes[value]
                    self._writes[value] = Write(
                        write.writer, write.partition, value, Outcome.COMMITTED, offset + number
                    )
            case Ordered(key, value):
                change = Change(key, value, self._clock, outcome=Outcome.UNKNOWN)
                self._changes.setdefault(key, []).append(change)
            case Done(key):
                began = self._changes[key].pop()
                self._changes[key].append(Change(key, began.value, began.began_at, self._clock))
            case Begun(transaction):
                self._transactions.append(transaction)
            case Ended(outcome):
                last = self._transactions.pop()
                fields = (last.transactional_id, last.writer, last.begun_at, last.writes, last.reads)
                self._transactions.append(Transaction(*fields, outcome))

    @property
    def topics(self) -> list[str]:
        """All that were ever asked for."""
        return [name for kind, name in self._changes if kind == "topic"]

    def history(self) -> History:
        """What is expected; nothing is seen yet."""
        return History(
            transactions=list(self._transactions),
            writes=list(self._writes.values()),
            changes=[change for changes in self._changes.values() for change in changes],
        )


def write_records(files: RecordingFiles, port: int, chance: Random, is_over: threading.Event) -> None:
    """Batches of one to four records, by two writers into two partitions."""
    number = 0
    with RawClient(port) as client:
        while not is_over.is_set():
            at = chance.randrange(2)
            padding = "." * chance.choice((0, 10, 100, 700))
            values = tuple(f"{number + index}:{padding}" for index in range(chance.randint(1, 4)))
            number += len(values)
            files.note(Sent(f"writer {at}", TopicAndPartition(PLAIN, at), values))
            rows = [(b"k", value.encode()) for value in values]
            stamp = TIME + chance.randrange(1000)  # of neighbours the later one may be older
            answer = client.produce(PLAIN, batch(*rows, timestamp=stamp), at)
            assert answer.error_code == 0, answer
            files.note(Acked(values, answer.base_offset))


def commit_offsets(files: RecordingFiles, port: int, _: Random, is_over: threading.Event) -> None:
    """Ever larger offsets of a group."""
    offset, key = 0, ("position", GROUP)
    with RawClient(port) as client:
        client.call(FindCoordinatorRequest(key=GROUP), FIND_COORDINATOR)
        while not is_over.is_set():
            offset += 1
            item = OffsetCommitPartition(partition_index=0, committed_offset=offset, committed_metadata="")
            topics = [OffsetCommitTopic(name=PLAIN, partitions=[item])]
            files.note(Ordered(key, offset))
            answer = client.call(OffsetCommitRequest(group_id=GROUP, topics=topics), OFFSET_COMMIT)
            error = answer.topics[0].partitions[0].error_code
            assert error in {0, *RETRY_LATER}, error
            if not error:
                files.note(Done(key))


def make_topics(files: RecordingFiles, port: int, chance: Random, is_over: threading.Event) -> None:
    """Topics come and go, up to three with a request; the names come again."""
    there: set[str] = set()
    with RawClient(port) as client:
        while not is_over.is_set():
            names = chance.sample(range(5), chance.randint(1, 3))
            chosen = {f"made-{number}" for number in names}
            if there & chosen:
                change_topics(files, client, dict.fromkeys(sorted(there & chosen)))
            else:
                change_topics(files, client, {name: chance.randint(1, 3) for name in sorted(chosen)})
            there ^= (there & chosen) or chosen


def change_topics(files: RecordingFiles, client: RawClient, counts: Mapping[str, int | None]) -> None:
    """Make topics with so many partitions by one request; None deletes them."""
    for name, count in counts.items():
        files.note(Ordered(("topic", name), count))
    if None in counts.values():
        deleted = client.call(DeleteTopicsRequest(topic_names=list(counts)), DELETE_TOPICS)
        errors = [topic.error_code for topic in deleted.responses]
    else:
        wanted = [
            CreateTopic(
                name=name, num_partitions=count or 0, replication_factor=-1, assignments=[], configs=[]
            )
            for name, count in counts.items()
        ]
        made = client.call(CreateTopicsRequest(topics=wanted), CREATE_TOPICS)
        errors = [topic.error_code for topic in made.topics]
    assert set(errors) == {0}, errors
    for name in counts:
        files.note(Done(("topic", name)))


def write_transactions(files: RecordingFiles, port: int, chance: Random, is_over: threading.Event) -> None:
    """Records in two partitions and a position, together; some are aborted."""
    reached = number = 0
    with Producer(bootstrap_servers=f"127.0.0.1:{port}", transactional_id="id", linger_ms=0) as producer:
        producer.init_transactions()
        while not is_over.is_set():
            number += 1
            partitions = [TopicAndPartition(EXACT, at) for at in range(2)]
            writes = {
                at: [f"{number}.{at.partition}.{index}" for index in range(chance.randint(1, 3))]
                for at in partitions
            }
            files.note(Begun(Transaction("id", 0, number, writes, {INPUT: (reached, reached + 5)})))
            producer.begin()
            for partition, values in writes.items():
                for value in values:
                    producer.send(EXACT, value, partition=partition.partition)
            producer.send_offsets({INPUT: reached + 5}, GroupMetadata(EXACT_GROUP))
            if chance.randrange(4):
                producer.commit()
                reached += 5
                files.note(Ended(Outcome.COMMITTED))
            else:
                producer.abort()
                files.note(Ended(Outcome.ABORTED))


CLIENTS: Mapping[str, Callable[[RecordingFiles, int, Random, threading.Event], None]] = {
    "records": write_records,
    "commits": commit_offsets,
    "topics": make_topics,
    "transactions": write_transactions,
}


@contextmanager
def recorded_broker(root: Path, flush: str) -> Iterator[tuple[RecordingFiles, EmbeddedBroker]]:
    """A broker all of whose changes of files are noted."""
    root.mkdir()
    files = RecordingFiles(root)
    with (
        patch.object(cluster, "TopicStore", lambda config, now_ms, _: TopicStore(config, now_ms, files)),
        EmbeddedBroker(root, properties={**SETTINGS, "ottla.flush": flush}) as broker,
    ):
        yield files, broker


def recorded(root: Path, flush: str, chance: Random, notes: int) -> RecordingFiles:
    """Let all clients work until so many notes are there; the broker is then stopped, which is noted too."""
    failures: list[BaseException] = []
    with recorded_broker(root, flush) as (files, broker):
        with RawClient(broker.port) as client:
            change_topics(files, client, {PLAIN: 2, EXACT: 2, INPUT.topic: 1})
        is_over = threading.Event()

        def work(client: Callable[[RecordingFiles, int, Random, threading.Event], None], seed: float) -> None:
            try:
                client(files, broker.port, Random(seed), is_over)
            except BaseException as error:  # noqa: BLE001 - raised below
                failures.append(error)
                is_over.set()

        threads = [
            threading.Thread(target=work, args=(client, chance.random())) for client in CLIENTS.values()
        ]
        for thread in threads:
            thread.start()
        while len(files.notes) < notes and not is_over.wait(0.01):
            pass
        is_over.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    if failures:
        raise failures[0]
    return files

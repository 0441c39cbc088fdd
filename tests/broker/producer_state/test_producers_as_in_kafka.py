"""Kafka's own classes (3.9.1) answer the same batches the same, and leave the snapshot that we would."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ottla.broker.producer_state import ProducerStates
from ottla.broker.producer_state.producer_states import SEQUENCE_MAX
from ottla.log import producer_snapshots
from ottla.log.batch_header import BatchHeader
from ottla.log.producer_snapshots import Snapshot
from ottla.model.errors import KafkaError
from tests.kafka_programs import run_program
from tests.log.faulty_files import QuickFiles
from tests.log.record_sets import NOW
from tests.scale import seeded
from tools.peer_cache import KAFKA_3

BATCHES = 20_000
Sent = tuple[int, int, int, int]


class Clients:
    """What several producers send: mostly the next batch, or one of the last again, and some nonsense."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.stored: dict[int, list[Sent]] = {}

    def next(self) -> Sent:
        """Producer id, epoch, first sequence, record count."""
        random, count = self._random, self._random.randint(1, 4)
        producer_id = random.randrange(20)
        mine = self.stored.setdefault(producer_id, [])
        if not mine:
            return (
                producer_id,
                random.randrange(3),
                random.choice([0, 7, SEQUENCE_MAX - 2, SEQUENCE_MAX]),
                count,
            )
        _, epoch, first, last_count = mine[-1]
        kind = random.random()
        if kind < 0.55:
            return producer_id, epoch, (first + last_count) & SEQUENCE_MAX, count
        if kind < 0.85:
            return random.choice(mine[-8:])
        if kind < 0.9:
            return producer_id, epoch + 1, random.choice([0, 0, 0, 3]), count
        jumped = (first + random.randint(-6, 9)) & SEQUENCE_MAX
        return producer_id, max(epoch - random.randrange(2), 0), jumped, count


def answer(states: ProducerStates, sent: Sent, time: int, end: int) -> str:
    producer_id, epoch, first, count = sent
    header = BatchHeader(0, 100, 0, count - 1, 2, 0, time, time, count, -1, producer_id, epoch, first)
    try:
        duplicate = states.check(header)
    except KafkaError as error:
        return f"error {error.code}"
    if duplicate is not None:
        return f"duplicate {duplicate.base_offset} {duplicate.last_offset} {duplicate.append_time_ms}"
    states.stage(header, end)
    states.commit()
    return f"appended {end}"


@pytest.mark.timeout(280)
def test_kafka_3_9_decides_the_same(tmp_path: Path) -> None:
    clients, states, end = Clients(seeded()), ProducerStates(), 0
    lines, ours = [], []
    for number in range(BATCHES):
        sent = clients.next()
        lines.append(" ".join(map(str, (*sent, NOW + number))))
        ours.append(answer(states, sent, NOW + number, end))
        if ours[-1].startswith("appended"):
            clients.stored[sent[0]].append(sent)
            end += sent[3]
    program = Path(__file__).with_name("ProducerOracle.java")
    printed = run_program(program, tmp_path, version=KAFKA_3, given="\n".join(lines))
    assert printed.splitlines() == ours
    assert {line.split()[0] for line in ours} == {"appended", "duplicate", "error"}
    snapshot = producer_snapshots.read_latest(tmp_path, 0, end, QuickFiles())
    assert snapshot is not None
    assert (snapshot.offset, sorted(snapshot.entries)) == (end, sorted(states.entries()))
    ours_is_read_by_kafka(states, end, tmp_path / "ours")


def ours_is_read_by_kafka(states: ProducerStates, end: int, path: Path) -> None:
    """Our snapshots have several batches of a producer: Kafka goes on with the last one of each."""
    path.mkdir()
    entries = states.snapshot_entries()
    assert len(entries) > len(states)
    producer_snapshots.write(path, Snapshot(end, entries), QuickFiles())
    program = Path(__file__).with_name("ProducerOracle.java")
    printed = run_program(program, path, version=KAFKA_3, given=f"1000 0 0 1 {NOW}")
    assert printed.split() == ["appended", str(end)]
    snapshot = producer_snapshots.read_latest(path, 0, end + 1, QuickFiles())
    assert snapshot is not None
    assert snapshot.offset == end + 1
    assert sorted(snapshot.entries)[:-1] == sorted(states.entries())

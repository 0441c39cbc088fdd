"""The power is cut at instants of a recorded history; what is left is opened and judged.

python -m tests.proof.power_loss [--flush always] [--points 100000] [--seed 7] [--notes 3000]

With `ottla.flush=always` everything that was acknowledged is there: records, commits, transactions, topics.
With `os` each partition has its records up to some point, at least to its recovery point, and all topics.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from random import Random, SystemRandom
from typing import NamedTuple

from ottla import TopicAndPartition
from ottla.broker.coordination.effects import Record
from ottla.broker.groups.coordinator import records as offset_records
from ottla.broker.settings.broker_config import BrokerConfig
from ottla.broker.storage.topic_store import TopicStore
from ottla.broker.transactions.coordinator import records as transaction_records
from ottla.broker.transactions.coordinator.state import TransactionState
from ottla.log import checkpoints
from ottla.log.file_system import FileSystem
from ottla.log.partition_log import PartitionLog
from ottla.log.validation import checked
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.testing.simulation.disk import Disk, Noted, RecordingFiles, put
from tests.broker.faults.batches import HEADER, Stored, batch, end_offset, stored, whole
from tests.log.faulty_files import QuickFiles
from tests.proof.checker import History, Look, Outcome, Placed, Write, anomalies
from tests.proof.crash_load import EXACT, EXACT_GROUP, GROUP, INPUT, PLAIN, SETTINGS, Account, recorded

TRANSACTIONAL, CONTROL = 1 << 4, 1 << 5
COMMITTING = {TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT}
STOP_NOTES, STOP_SHARE = 60, 0.1
"""So many notes at the end, those of the clean stop, get more of the cuts than others do: this share more."""
SECOND_CUT_EACH = 8
"""One of so many cuts is followed by more records and a second cut."""


class Batch(NamedTuple):
    """A stored batch, as far as the proof looks at it."""

    records: tuple[Stored, ...]
    next_offset: int
    attributes: int
    producer_id: int


@lru_cache(maxsize=100_000)
def _parsed(data: bytes) -> Batch:
    fields = HEADER.unpack_from(data)
    return Batch(tuple(stored(data)), end_offset(data), fields[5], fields[9])


def batches(log: PartitionLog) -> Iterator[Batch]:
    """All batches of a log, read as a fetch reads them."""
    offset = log.start_offset
    while offset < log.high_watermark:
        read = [_parsed(data) for data in whole(log.read(offset, 1 << 20))]
        assert read, f"nothing can be read of {log.path.name} at {offset}, which ends at {log.high_watermark}"
        yield from read
        offset = read[-1].next_offset


def visible(log: PartitionLog, committing: set[int]) -> list[Stored]:
    """Committed records. A start commits the open transactions of the producers in `committing`."""
    rows: list[Stored] = []
    unfinished: dict[int, list[Stored]] = {}
    for item in batches(log):
        if item.attributes & CONTROL:
            ended = unfinished.pop(item.producer_id, [])
            if (item.records[0].key or b"")[3] == 1:
                rows += ended
        elif item.attributes & TRANSACTIONAL:
            unfinished.setdefault(item.producer_id, []).extend(item.records)
        else:
            rows += item.records
    for producer_id, records in unfinished.items():
        if producer_id in committing:
            rows += records
    return sorted(rows)


def log_of(store: TopicStore, topic: str, partition: int) -> PartitionLog:
    """A log that must be there. Raises AssertionError if the partition is refused."""
    log = store.partition(topic, partition).log
    assert log is not None, f"refused: {store.directory.damaged[topic, partition]}"
    return log


def committing_producers(store: TopicStore) -> set[int]:
    """Producers whose last transaction was decided to be committed."""
    if TRANSACTIONS_TOPIC not in store.partitions:
        return set()
    states: dict[str, tuple[int, TransactionState]] = {}
    for record in visible(log_of(store, TRANSACTIONS_TOPIC, 0), set()):
        entry = transaction_records.read(Record(record.key or b"", record.value))
        if entry is not None and entry[1] is not None:
            states[entry[0]] = entry[1].producer_id, entry[1].state
    return {producer_id for producer_id, state in states.values() if state in COMMITTING}


def positions(store: TopicStore, committing: set[int]) -> dict[str, int]:
    """The committed offset of each group; a group has one partition here."""
    if OFFSETS_TOPIC not in store.partitions:
        return {}
    last: dict[str, int] = {}
    for record in visible(log_of(store, OFFSETS_TOPIC, 0), committing):
        entry = offset_records.read(Record(record.key or b"", record.value))
        if entry is not None and isinstance(entry[0], offset_records.OffsetKey):
            assert isinstance(entry[1], offset_records.OffsetValue)
            last[entry[0].group] = entry[1].offset
    return last


def opened(root: Path, files: FileSystem) -> TopicStore:
    """The directory as a broker opens it."""
    return TopicStore(BrokerConfig.from_properties({"log.dir": str(root), **SETTINGS}), lambda: 1, files)


def judged(
    account: Account, store: TopicStore, flush: str, recovery_points: dict[tuple[str, int], int]
) -> list[str]:
    """What is wrong with an opened directory, as a list of anomalies."""
    history = account.history()
    committing = committing_producers(store)
    places = [TopicAndPartition(topic, at) for topic in (PLAIN, EXACT) for at in range(2)]
    history.final = {
        place: [
            Placed(record.offset, (record.value or b"").decode())
            for record in visible(log_of(store, place.topic, place.partition), committing)
        ]
        for place in places
        if place.topic in store.partitions
    }
    history.sparse = frozenset(place for place in places if place.topic == EXACT)
    found = positions(store, committing)
    history.looks = [Look(("position", GROUP), found.get(GROUP))]
    for topic in account.topics:
        count = len(store.partitions[topic]) if topic in store.partitions else None
        history.looks.append(Look(("topic", topic), count))
    if flush == "always":
        history.positions = {INPUT: found.get(EXACT_GROUP, 0)}
    else:
        _weaken(history, recovery_points)
    return anomalies(history) + [line for place in places for line in _wrong_times(store, place)]


def _wrong_times(store: TopicStore, place: TopicAndPartition) -> Iterator[str]:
    """Segments whose newest record is not as the indexes say: retention would delete them too early."""
    if place.topic not in store.partitions:
        return
    for segment in log_of(store, place.topic, place.partition).segments:
        times = [header.max_timestamp for header in segment.file.headers(0)]
        if times and segment.max_timestamp != max(times):
            yield f"index: {segment.file.path.name} of {place} is {segment.max_timestamp}, not {max(times)}"


def _weaken(history: History, recovery_points: dict[tuple[str, int], int]) -> None:
    """With `os` an acknowledgement is no promise above the recovery point, and partitions stand alone."""
    history.writes = [
        write
        if (write.offset or 0) < recovery_points.get((write.partition.topic, write.partition.partition), 0)
        else replace(write, outcome=Outcome.UNKNOWN)
        for write in history.writes
    ]
    history.writes += [
        Write(f"transaction {number}", place, value, Outcome.UNKNOWN)
        for number, item in enumerate(history.transactions)
        for place, values in item.writes.items()
        for value in values
    ]
    history.transactions = ()
    history.changes = [
        change if change.key[0] == "topic" else replace(change, outcome=Outcome.UNKNOWN)
        for change in history.changes
        if isinstance(change.key, tuple)
    ]


@dataclass
class Findings:
    """What came of many power cuts."""

    points: int = 0
    second_cuts: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, seed: str, lines: list[str]) -> None:
        self.points += 1
        for line in lines:
            self.counts[line.split(":")[0]] += 1
        if lines and len(self.examples) < 20:
            self.examples.append(f"{seed}: {lines[0]}")


class PowerCuts:
    """Cuts the power of a recorded history at points drawn from a seed."""

    def __init__(self, files: RecordingFiles, flush: str, seed: int, scratch: Path) -> None:
        self._notes = files.notes
        self._flush = flush
        self._seed = seed
        self._scratch = scratch

    def run(self, points: int) -> Findings:
        """Spread so many cuts over the history."""
        began = time.monotonic()
        findings = Findings()
        disk, account = Disk(), Account()
        chance, end = Random(self._seed), len(self._notes)
        at_the_stop = int(points * STOP_SHARE)
        cuts = Counter(chance.choices(range(end), k=points - at_the_stop))
        cuts.update(chance.choices(range(max(0, end - STOP_NOTES), end), k=at_the_stop))
        for number, note in enumerate(self._notes):
            if isinstance(note, Noted):
                account.take(note.event)
            else:
                disk.take(note)
            for repeat in range(cuts[number]):
                seed = f"{self._seed} {number} {repeat}"
                findings.add(seed, self._cut(disk, account, Random(seed), findings))
        findings.seconds = time.monotonic() - began
        return findings

    def _cut(self, disk: Disk, account: Account, chance: Random, findings: Findings) -> list[str]:
        root = Path(tempfile.mkdtemp(dir=self._scratch))
        try:
            put(disk.draw(chance), root)
            points = checkpoints.read_offsets(root / checkpoints.RECOVERY_POINT)
            if chance.randrange(SECOND_CUT_EACH):
                return self._judge(root, account, points, QuickFiles())
            findings.second_cuts += 1
            return self._twice(root, account, points, chance)
        except (OttlaError, AssertionError) as error:
            return [f"refused: {error}"]
        finally:
            shutil.rmtree(root)

    def _judge(
        self, root: Path, account: Account, points: dict[tuple[str, int], int], files: FileSystem
    ) -> list[str]:
        store = opened(root, files)
        try:
            return judged(account, store, self._flush, points)
        finally:
            store.directory.abandon()

    def _twice(
        self, root: Path, account: Account, points: dict[tuple[str, int], int], chance: Random
    ) -> list[str]:
        """Open, append and flush, and cut the power again: at any point after the start of the opening."""
        before = Disk.holding(root)
        files = RecordingFiles(root, before.inodes)
        store = opened(root, files)
        writes: list[tuple[int, Write]] = []
        try:
            lines = judged(account, store, self._flush, points)
            if lines or PLAIN not in store.partitions:
                return lines
            kept = {place.offset: place.value for place in _plain_rows(store)}
            epoch = chance.randrange(2)
            for number in range(chance.randrange(8)):
                log = log_of(store, PLAIN, 0)
                value = f"second life {number}{'.' * chance.choice((1, 600, 2000))}"
                data = checked(batch((b"k", value.encode())), log.config, 1)
                offset = log.append(data, 1, epoch).base_offset
                log.write_staged()
                log.flush()
                place = TopicAndPartition(PLAIN, 0)
                writes.append(
                    (len(files.notes), Write("second life", place, value, Outcome.COMMITTED, offset))
                )
        finally:
            store.directory.abandon()
        at = chance.randint(0, len(files.notes))
        for note in files.notes[:at]:
            before.take(note)
        again = root / "again"
        again.mkdir()
        put(before.draw(chance), again)
        return self._check_second(again, kept, [write for noted, write in writes if noted <= at], writes)

    def _check_second(
        self, root: Path, kept: dict[int, str], acked: list[Write], writes: list[tuple[int, Write]]
    ) -> list[str]:
        store = opened(root, QuickFiles())
        try:
            rows = list(_plain_rows(store))
        finally:
            store.directory.abandon()
        place = TopicAndPartition(PLAIN, 0)
        known = [Write("first life", place, value, Outcome.UNKNOWN, at) for at, value in kept.items()]
        if acked:
            # What the first start has kept was flushed with the first record after it.
            known = [replace(write, outcome=Outcome.COMMITTED) for write in known]
        later = [write if write in acked else replace(write, outcome=Outcome.UNKNOWN) for _, write in writes]
        return anomalies(History(writes=[*known, *later], final={place: rows}))


def _plain_rows(store: TopicStore) -> Iterator[Placed]:
    for record in visible(log_of(store, PLAIN, 0), set()):
        yield Placed(record.offset, (record.value or b"").decode())


def prove(flush: str, points: int, seed: int, notes: int, scratch: Path) -> Findings:
    """Record a history and cut its power."""
    files = recorded(scratch / "recorded", flush, Random(f"{seed} load"), notes)
    return PowerCuts(files, flush, seed, scratch).run(points)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.power_loss")
    parser.add_argument("--flush", choices=["always", "os"], default="always")
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--notes", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 30))
    given = vars(parser.parse_args())
    logging.disable(logging.CRITICAL)  # every start tells what it has cut
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        findings = prove(**given, scratch=Path(scratch))
    told = {**given, **vars(findings)}
    sys.stdout.write(json.dumps(told) + "\n")
    return 1 if findings.counts else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""kill -9 while the cleaner works: of every key the last acknowledged value stays, whenever it was."""

from __future__ import annotations

import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest

from tests.broker.faults.batches import batch
from tests.broker.faults.forked_broker import ForkedBroker
from tests.broker.faults.raw_client import RawClient
from tests.scale import REPLAY, kills, seeded

KILLS = kills(3, 50)
KEYS = 40
PARTITIONS = 3
SETTINGS = {
    "log.cleaner.backoff.ms": "1",
    "log.segment.delete.delay.ms": "1",
    "log.flush.offset.checkpoint.interval.ms": "20",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "3000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


class Table:
    """A writer of one partition: the value of each key that was acknowledged, and those that may be there."""

    def __init__(self, partition: int, chance: Random) -> None:
        self.partition = partition
        self._chance = chance
        self._number = 0
        self._end = 0
        self._values: dict[bytes, bytes | None] = {}
        self._unsure: dict[bytes, bytes | None] = {}

    def write(self, client: RawClient) -> None:
        self._number += 1
        keys = {b"key %d" % self._chance.randrange(KEYS) for _ in range(5)}
        value = None if self._chance.random() < 0.1 else b"value %d" % self._number
        self._unsure = dict.fromkeys(keys, value)
        answer = client.produce("c", batch(*self._unsure.items()), self.partition)
        assert answer.error_code == 0
        self._values |= self._unsure
        self._unsure = {}
        self._end = answer.base_offset + len(keys)

    def check(self, client: RawClient) -> int:
        """How many records are there."""
        found = client.records("c", self.partition)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert self._end <= client.offset("c", partition=self.partition) <= self._end + len(self._unsure)
        latest: dict[bytes, bytes | None] = {record.key or b"": record.value for record in found}
        if offsets and offsets[-1] >= self._end:
            self._values |= self._unsure
        for key in self._values.keys() | latest.keys():
            assert latest.get(key) == self._values.get(key), f"partition {self.partition}, {key!r}"
        self._end = client.offset("c", partition=self.partition)
        self._unsure = {}
        return len(found)


def is_cleaning(data_dir: Path) -> bool:
    """Whether a compaction has got as far as to files of its own."""
    suffixes = {".cleaned", ".swap", ".deleted"}
    with suppress(FileNotFoundError):
        return any(path.suffix in suffixes for path in data_dir.glob("c-*/*"))
    return False


def write_until_killed(broker: ForkedBroker, tables: list[Table], chance: Random) -> bool:
    """Whether the cleaner was seen at work before the kill, which comes soon after that."""

    def work(table: Table) -> None:
        with suppress(OSError), broker.client() as client:
            while True:
                table.write(client)

    threads = [threading.Thread(target=work, args=(table,)) for table in tables]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while not (seen := is_cleaning(broker.data_dir)) and time.monotonic() < deadline:
        time.sleep(0.002)
    broker.signal_after(chance.uniform(0, 0.1)).join()
    for thread in threads:
        thread.join()
    broker.wait()
    return seen


@pytest.mark.timeout(300 + 30 * KILLS)
def test_killed_while_the_cleaner_works(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    chance = seeded()
    tables = [Table(partition, Random(chance.random())) for partition in range(PARTITIONS)]
    with closing(ForkedBroker(data_dir, SETTINGS)) as broker:
        with broker.client() as client:
            assert client.create("c", PARTITIONS, COMPACTED) == 0
        assert write_until_killed(broker, tables, chance)
        for number in range(1, KILLS):
            broker.start()
            with broker.client() as client:
                for table in tables:
                    table.check(client)
            assert write_until_killed(broker, tables, chance), f"{REPLAY}, kill {number}"
            assert broker.surprises == []
        broker.start()
        with broker.client() as client:
            for table in tables:
                table.check(client)
        assert broker.surprises == []

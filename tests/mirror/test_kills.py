"""A mirror that is killed at random: nothing is missing, order is kept, twice comes what is not committed.

Some of the mirrors hand batches on as bytes, others decode them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla import Admin, EmbeddedBroker, Producer
from ottla.fetching import TopicAndPartition
from ottla.mirror.offset_runs import translated
from ottla.mirror.translation import read_runs
from tests.mirror.clusters import PATIENCE_S, content, end_of, wait_for

KILLS = int(os.environ.get("OTTLA_MIRROR_KILLS", "20"))
PARTITIONS = 3


class Worker:
    """The process that forks mirrors."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.mirror.mirror_worker", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = 0

    def start(self, whole_bytes: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{whole_bytes}\n")
        self._process.stdin.flush()
        self.pid = int(self._line())

    def end(self, how: signal.Signals) -> int:
        """The mirror's exit code."""
        os.kill(self.pid, how)
        self.pid = 0
        return int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def close(self) -> None:
        if self.pid:
            self.end(signal.SIGKILL)
        self._process.communicate(timeout=PATIENCE_S)


@contextmanager
def steady_writes(bootstrap: str, topic: str) -> Iterator[list[int]]:
    """Numbers 0, 1, 2, … into every partition until the end; how many, in the list."""
    counts = [0]
    ended = threading.Event()

    def work() -> None:
        with Producer(bootstrap_servers=bootstrap) as producer:
            while not ended.wait(0.02):
                for number in range(counts[0], counts[0] + 50):
                    for partition in range(PARTITIONS):
                        producer.send(topic, b"%d" % number, partition=partition)
                counts[0] += 50

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield counts
    finally:
        ended.set()
        thread.join()


def positions(broker: EmbeddedBroker, group: str) -> dict[int, int]:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        return {place.partition: one.offset for place, one in admin.group_offsets(group).items()}


@pytest.mark.timeout(300)
def test_killed_at_random(source: EmbeddedBroker, target: EmbeddedBroker, name: str) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}, {KILLS} kills")  # noqa: T201  (of a failing test)
    chance = random.Random(seed)
    source.create_topic(name, PARTITIONS)
    target.create_topic(name, PARTITIONS)
    group, there = f"group-of-{name}", {"bootstrap_servers": target.bootstrap}
    committed: dict[int, set[int]] = {partition: {0} for partition in range(PARTITIONS)}
    worker = Worker(source.bootstrap, target.bootstrap, name)
    try:
        with steady_writes(source.bootstrap, name) as counts:
            for number in range(KILLS):
                worker.start(chance.choice((1, 1, 1000, 0)))
                if number % 4:  # most are killed at work, some while they join
                    before = end_of(there, name)
                    wait_for(lambda before=before: end_of(there, name) > before, "it mirrors")
                time.sleep(chance.uniform(0, 0.2))
                assert worker.end(signal.SIGKILL) == -signal.SIGKILL
                for partition, offset in positions(source, group).items():
                    committed[partition].add(offset)
        worker.start(1)
        wait_for(lambda: set(positions(source, group).values()) == {counts[0]}, "all is mirrored")
        assert worker.end(signal.SIGTERM) == 0
    finally:
        worker.close()
    copies = {at: [int(row[2] or b"") for row in rows] for at, rows in content(there, name).items()}
    for partition, numbers in copies.items():
        expected = 0
        for number in numbers:
            assert number == expected or (number < expected and number in committed[partition])
            expected = number + 1
        assert expected == counts[0]
    check_translation(there, name, group, copies, counts[0])


def check_translation(
    there: dict[str, str], topic: str, group: str, copies: dict[int, list[int]], count: int
) -> None:
    """Every position leads to its very record, and behind that nothing comes twice."""
    runs = read_runs(there, group)
    for partition, numbers in copies.items():
        known = runs[TopicAndPartition(topic, partition)]
        found = [translated(known, offset) for offset in range(count + 1)]
        last = {number: at for at, number in enumerate(numbers)}
        assert found == [*(last[number] for number in range(count)), len(numbers)]
        assert translated(known, count + 1) is None

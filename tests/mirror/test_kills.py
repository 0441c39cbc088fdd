"""A mirror that is killed at random: nothing is missing, order is kept, twice comes what is not committed.

Some of the mirrors hand batches on as bytes, others decode them.
"""

from __future__ import annotations

import signal
import time

import pytest

from ottla import EmbeddedBroker
from ottla.mirror.offset_runs import translated
from ottla.mirror.translation import read_runs
from ottla.model.topic_partition import TopicAndPartition
from tests.mirror.clusters import content, end_of
from tests.mirror.killing import PARTITIONS, Worker, copied, positions, steady_writes
from tests.proof.checker import anomalies
from tests.scale import REPLAY, kills, seeded
from tests.waiting import wait_for

KILLS = kills(5, 200)


@pytest.mark.timeout(300 + 20 * KILLS)
def test_killed_at_random(source: EmbeddedBroker, target: EmbeddedBroker, name: str) -> None:
    chance = seeded(name)
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
    assert anomalies(copied(name, counts[0], copies, repeats=True)) == [], REPLAY
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

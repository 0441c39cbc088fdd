"""kill -9 while clients write, make topics and commit offsets: nothing that was acknowledged is lost.

`OTTLA_SEED` repeats a run, but its kills fall at other instants. Segments are tiny, so that many kills fall
into a roll.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest

from ottla.log.checkpoints import CLEAN_SHUTDOWN
from tests.broker.faults.broker_process import BrokerProcess
from tests.broker.faults.forked_broker import ForkedBroker
from tests.broker.faults.raw_client import RawClient
from tests.broker.faults.workloads import Committer, Producer, TopicMaker, Workload
from tests.scale import REPLAY, kills, seeded
from tests.waiting import wait_for

KILLS = kills(8, 500)
ROLLS = 2
"""Kills go on until so many segments were begun: some of them may have fallen into that."""
LOAD_S = (0.02, 0.15)
SETTINGS = {
    "log.segment.bytes": "10000",
    "log.index.interval.bytes": "1000",
    "log.flush.offset.checkpoint.interval.ms": "50",
    "offsets.topic.num.partitions": "3",
    "num.partitions": "4",
}
SOON_DELETED = {"log.segment.delete.delay.ms": "10"}


def run(workload: Workload, port: int) -> None:
    """One client's life: it ends with the broker's."""
    with suppress(OSError), RawClient(port) as client:
        workload.run(client)


def under_load(
    broker: BrokerProcess | ForkedBroker,
    workloads: Sequence[Workload],
    chance: Random,
    number: signal.Signals = signal.SIGKILL,
    *,
    all_at_work: bool = False,
) -> list[str]:
    """Let all workloads run, end the broker at some instant, and return what else failed.

    With `all_at_work` that instant comes after something of every workload was acknowledged.
    """
    failures: list[str] = []

    def work(workload: Workload) -> None:
        try:
            run(workload, broker.port)
        except Exception as error:  # noqa: BLE001 - told by the test
            failures.append(f"{type(workload).__name__}: {error!r}")

    threads = [threading.Thread(target=work, args=(workload,)) for workload in workloads]
    for thread in threads:
        thread.start()
    if all_at_work:
        wait_for(lambda: failures or all(workload.acknowledged for workload in workloads), "all are at work")
    timer = broker.signal_after(chance.uniform(*LOAD_S), number)
    for thread in threads:
        thread.join()
    timer.join()
    broker.wait()
    return failures


def new_workloads(chance: Random) -> list[Workload]:
    return [
        Producer("t", 0, Random(chance.random()), is_idempotent=False),
        Producer("t", 1, Random(chance.random()), is_idempotent=True),
        Producer("t", 2, Random(chance.random()), is_idempotent=True),
        TopicMaker(Random(chance.random())),
        Committer("g1"),
        Committer("g2"),
    ]


@pytest.mark.timeout(300 + 20 * KILLS)
@pytest.mark.parametrize("flush", ["os", "always"])
def test_killed_again_and_again(flush: str, tmp_path: Path) -> None:
    chance = seeded(flush)
    settings = {**SETTINGS, **SOON_DELETED, "ottla.flush": flush}
    data_dir = tmp_path / "data"
    workloads = new_workloads(chance)
    with closing(ForkedBroker(data_dir, settings)) as broker:
        with broker.client() as client:
            assert client.create("t") == 0
        assert under_load(broker, workloads, chance, all_at_work=True) == [], REPLAY
        number = 1
        while number < KILLS // 2 or len(list((data_dir / "t-0").glob("*.log"))) <= ROLLS:
            broker.start()
            with broker.client() as client:
                for workload in workloads:
                    workload.check(client, data_dir)
            assert under_load(broker, workloads, chance) == [], f"{REPLAY}, kill {number}"
            assert broker.surprises == [], f"{REPLAY}, kill {number}"
            number += 1
        broker.start()
        with broker.client() as client:
            for workload in workloads:
                workload.check(client, data_dir)
                if isinstance(workload, Producer):
                    workload.check_all(client, data_dir)
        assert broker.surprises == [], REPLAY


def test_a_stop_under_load_is_a_clean_one(tmp_path: Path) -> None:
    """SIGTERM: what was acknowledged is there, and the next start has nothing to repair."""
    data_dir = tmp_path / "data"
    chance = seeded()
    workloads = new_workloads(chance)
    with BrokerProcess(data_dir, SETTINGS) as broker, broker.client() as client:
        assert client.create("t") == 0
        assert under_load(broker, workloads, chance, signal.SIGTERM) == []
        assert broker.stop() == 0
        assert broker.log == ""
    assert (data_dir / CLEAN_SHUTDOWN).exists()
    ends = {path: path.stat().st_size for path in data_dir.glob("t-*/*.log")}
    with BrokerProcess(data_dir, SETTINGS) as broker, broker.client() as client:
        assert not (data_dir / CLEAN_SHUTDOWN).exists()
        assert {path: path.stat().st_size for path in ends} == ends
        for workload in workloads:
            workload.check(client, data_dir)
        assert broker.stop() == 0
        assert broker.log == ""

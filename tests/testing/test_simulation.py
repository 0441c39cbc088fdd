"""The simulation offered to users: it finds a race, repeats it, and leaves sound code alone."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time

import pytest

from ottla import aio
from ottla.testing import simulation
from tests.scale import REPLAY, SEED, sized

SEEDS = range(SEED, SEED + sized(4, 2_000))
FAULTS = simulation.Faults(every_s=8, for_s=60)


async def bill(sim: simulation.Simulation, *, commits_first: bool) -> None:
    """Orders are billed by two workers."""
    await sim.create_topic("orders", 2)
    billed: set[int] = set()

    async def worker() -> None:
        async with aio.GroupConsumer(
            "orders",
            group_id="bills",
            bootstrap_servers=sim.bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            async for message in consumer:
                if commits_first:
                    await consumer.commit(message)
                await asyncio.sleep(0.3)
                billed.add(int(message.value or b""))
                if not commits_first:
                    await consumer.commit(message)

    sim.start("worker 0", worker)
    sim.start("worker 1", worker)
    async with aio.Producer(bootstrap_servers=sim.bootstrap, delivery_timeout_ms=3_600_000) as producer:
        for number in range(40):
            await (await producer.send("orders", b"%d" % number, partition=number % 2))
            await asyncio.sleep(1)
    await sim.until(lambda: len(billed) == 40, timeout_s=150)


async def commit_first(sim: simulation.Simulation) -> None:
    await bill(sim, commits_first=True)


async def work_first(sim: simulation.Simulation) -> None:
    await bill(sim, commits_first=False)


def test_a_race_is_found_and_repeated() -> None:
    with pytest.raises(simulation.Failed) as failed:
        simulation.search(commit_first, range(SEED, SEED + 100), faults=FAULTS)
    shown = failed.value.run
    assert len(shown.faults) <= 3, f"{REPLAY}: not shrunk: {shown}"
    assert f"seed {shown.seed} failed" in str(failed.value)
    assert simulation.run(commit_first, shown.seed, faults=shown.faults).digest == shown.digest
    assert simulation.run(work_first, shown.seed, faults=shown.faults).error is None


def test_sound_code_passes() -> None:
    runs = simulation.search(work_first, SEEDS, faults=FAULTS)
    assert sum(len(run.faults) for run in runs) >= len(runs), "nothing went wrong"


DIGEST = """
from ottla.testing import simulation
from tests.testing.test_simulation import FAULTS, work_first
print(simulation.run(work_first, {seed}, faults=FAULTS).digest)
"""


def test_a_seed_repeats_in_another_process() -> None:
    """Byte for byte, though sets of texts have another order there."""
    other = subprocess.run(
        [sys.executable, "-c", DIGEST.format(seed=SEED)],
        env={**os.environ, "PYTHONHASHSEED": "random"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout == simulation.run(work_first, SEED, faults=FAULTS).digest + "\n", REPLAY


def test_an_error_of_the_application_is_the_result() -> None:
    async def scenario(sim: simulation.Simulation) -> None:
        async def worker() -> None:
            raise ZeroDivisionError("a bug")

        sim.start("worker", worker)
        await asyncio.sleep(3600)

    run = simulation.run(scenario, faults=[])
    assert isinstance(run.error, ZeroDivisionError)
    assert run.simulated_s < 1


def test_who_waits_for_ever_is_told() -> None:
    async def scenario(_: simulation.Simulation) -> None:
        await asyncio.Event().wait()

    run = simulation.run(scenario, faults=[], limit_s=7200)
    assert isinstance(run.error, simulation.Stuck)
    assert "7200 simulated seconds" in str(run.error)


def test_a_killed_process_runs_nothing_more() -> None:
    ended: list[str] = []
    lives: list[float] = []

    async def scenario(sim: simulation.Simulation) -> None:
        async def worker() -> None:
            lives.append(sim.now_s)
            try:
                await asyncio.sleep(50)
                ended.append("return")
            finally:
                ended.append("finally")

        sim.start("worker", worker)
        await asyncio.sleep(200)
        assert ended == ["return", "finally"]  # of the second life only

    assert simulation.run(scenario, faults=[simulation.Fault(10.0, "kill", 5.0, 0.0)]).error is None
    assert lives == [0.0, 16.0]


def test_clocks_and_chance_are_the_simulations_and_given_back() -> None:
    seen: list[tuple[float, float, bytes]] = []

    async def scenario(_: simulation.Simulation) -> None:
        await asyncio.sleep(3_500)
        seen.append((time.time(), random.random(), os.urandom(4)))

    began = time.time(), random.random()
    for _ in range(2):
        assert simulation.run(scenario, 5, faults=[]).error is None
    assert seen[0] == seen[1]
    assert time.time() - began[0] < 3000
    assert random.random() != began[1]

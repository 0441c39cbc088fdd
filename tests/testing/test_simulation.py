"""The simulation offered to users: it finds a race, repeats it, and leaves sound code alone."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import subprocess
import sys
import time
import weakref

import pytest

from ottla import OttlaError, SimulationFailed, SimulationStuck, aio
from ottla.testing import simulation
from tests.scale import REPLAY, SEED, sized
from tests.testing.billing import FAULTS, commit_first, work_first

SEEDS = range(SEED, SEED + sized(4, 2_000))


def test_a_race_is_found_and_repeated() -> None:
    with pytest.raises(SimulationFailed) as failed:
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
from tests.testing.billing import FAULTS, work_first
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
    assert isinstance(run.error, SimulationStuck)
    assert "7200 simulated seconds" in str(run.error)


def test_timers_fire_in_order_and_cancelled_ones_do_not() -> None:
    fired: list[int] = []

    async def scenario(_: simulation.Simulation) -> None:
        loop = asyncio.get_running_loop()
        at_s = loop.time() + 1
        timers = [loop.call_at(at_s + number % 2, fired.append, number) for number in range(1_000)]
        for timer in timers[100:]:
            timer.cancel()
        await asyncio.sleep(3)

    assert simulation.run(scenario, faults=[]).error is None
    assert fired == [*range(0, 100, 2), *range(1, 100, 2)]


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
    assert lives == pytest.approx([0.0, 16.0], abs=0.001)


def test_what_dead_processes_begin_while_they_are_dropped_is_dropped_too() -> None:
    """It is neither run nor left to the thread's own loop, with all of the simulation behind it."""
    begun: list[asyncio.Task[None]] = []
    ended: list[str] = []
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def end(sim: simulation.Simulation) -> None:
        ended.append(f"{sim.now_s}")

    async def scenario(sim: simulation.Simulation) -> None:
        async def worker() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                begun.append(asyncio.ensure_future(end(sim)))
                await begun[-1]

        loops.append(weakref.ref(asyncio.get_running_loop()))
        sim.start("worker", worker)
        await asyncio.sleep(100)

    assert simulation.run(scenario, faults=[simulation.Fault(10.0, "kill", 5.0, 0.0)]).error is None
    assert [task.get_loop() for task in begun] == [loops[0]()] * 2  # one of each life
    begun.clear()
    gc.collect()
    assert ended == []
    assert [loop() for loop in loops] == [None]


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


def test_a_clock_that_jumps_stays_wrong_in_its_process() -> None:
    errors: list[float] = []

    async def scenario(sim: simulation.Simulation) -> None:
        started = time.time() - sim.now_s

        async def worker() -> None:
            await asyncio.sleep(30)
            errors.append(time.time() - started - sim.now_s)
            assert time.monotonic() == pytest.approx(sim.now_s)

        sim.start("worker", worker)
        await asyncio.sleep(100)
        assert time.time() - started == pytest.approx(sim.now_s), "others have their own clocks"

    for choice in (0.0001, 0.0002):  # the last digit says whether it jumps forward or back
        jump = simulation.Fault(5.0, "clock jump", 10.0, choice)
        result = simulation.run(scenario, faults=[jump, simulation.Fault(10.0, "kill", 1.0, 0.0)])
        assert result.error is None, result
    assert errors == pytest.approx([600.0, -600.0])


def test_a_full_disk_refuses_records_and_loses_none() -> None:
    async def scenario(sim: simulation.Simulation) -> None:
        await sim.create_topic("events")
        acked, refused = [], 0
        async with aio.Producer(bootstrap_servers=sim.bootstrap, delivery_timeout_ms=40_000) as producer:
            while sim.now_s < 120:
                value = f"{sim.now_s}".encode()
                try:
                    await (await producer.send("events", value))
                    acked.append(value)
                except OttlaError:
                    refused += 1
                await asyncio.sleep(1)
        async with aio.PartitionConsumer(bootstrap_servers=sim.bootstrap) as consumer:
            reader = await consumer.consume_partition("events", 0, "earliest")
            seen = [message.value async for message in reader.messages(timeout=5)]
        assert refused
        assert float(acked[-1]) > 110, "it goes on when there is room"
        assert [value for value in seen if value in acked] == acked

    runs = [simulation.run(scenario, faults=[simulation.Fault(20.0, "disk full", 60.0, 0.01)]) for _ in "ab"]
    assert runs[0].error is None, runs[0]
    assert runs[0].digest == runs[1].digest, "the broker's errors have the path of a file"


def test_a_leader_moves_and_readers_follow() -> None:
    leaders: set[int | None] = set()

    async def scenario(sim: simulation.Simulation) -> None:
        await sim.create_topic("events")
        async with (
            aio.Producer(bootstrap_servers=sim.bootstrap) as producer,
            aio.PartitionConsumer(bootstrap_servers=sim.bootstrap) as consumer,
            aio.Admin(bootstrap_servers=sim.bootstrap) as admin,
        ):
            reader = await consumer.consume_partition("events", 0, "earliest")
            rows = reader.messages()
            for number in range(40):
                await (await producer.send("events", b"%d" % number))
                assert (await anext(rows)).value == b"%d" % number
                (partition,) = (await admin.describe_topics("events")).partitions
                leaders.add(partition.leader)
                await asyncio.sleep(1)

    moves = [simulation.Fault(at, "leader move", 0.0, choice) for at, choice in ((9.0, 0.1), (20.0, 0.9))]
    result = simulation.run(scenario, faults=moves, brokers=3)
    assert result.error is None, result
    assert len([line for line in result.log if "leader move: " in line]) == len(moves)
    assert len(leaders) > 1


def test_tls_is_refused_by_name() -> None:
    async def scenario(sim: simulation.Simulation) -> None:
        async with aio.Admin(bootstrap_servers=sim.bootstrap, security_protocol="SSL") as admin:
            await admin.list_topics()

    assert "simulated connections have no TLS" in str(simulation.run(scenario, faults=[]).error)

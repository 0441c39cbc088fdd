"""An application to be simulated: workers that bill orders, with a race and without."""

from __future__ import annotations

import asyncio

from ottla import aio
from ottla.testing import simulation

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

"""Runs scenarios: with one seed, with many until one fails, and again with ever fewer faults."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from ottla.aio import opening
from ottla.model.address import Address
from ottla.model.errors import SimulationFailed
from ottla.testing.simulation.brokers import SimulatedBroker
from ottla.testing.simulation.chance import replaced, simulated
from ottla.testing.simulation.faults import Fault, Faults
from ottla.testing.simulation.loop import PROCESS, Process, SimulationLoop, clock_error_s
from ottla.testing.simulation.network import Network, Socket
from ottla.testing.simulation.simulation import Simulation
from ottla.testing.simulation.trace import Trace

LIMIT_S = 24 * 3600.0
MEMORY = Path("/dev/shm")
COLLECT_S = 600.0
"""The simulated time between two collections of garbage. There are no others: the seed must decide."""

USUAL = Faults()

Scenario = Callable[[Simulation], Coroutine[Any, Any, object]]


@dataclass
class Run:
    """The result of a run. The same seed and the same faults give the same `digest`."""

    seed: int
    faults: list[Fault]
    error: BaseException | None = None
    simulated_s: float = 0.0
    digest: str = ""
    log: list[str] = field(default_factory=list)
    trace: list[str] | None = None

    def __str__(self) -> str:
        outcome = "passed" if self.error is None else f"failed: {type(self.error).__name__}: {self.error}"
        faults = "".join(f"\n    {fault!r}," for fault in self.faults)
        lines = "".join(f"\n  {line}" for line in self.log)
        summary = f"seed {self.seed} {outcome}, after {self.simulated_s:.1f} simulated seconds"
        return f"{summary}\n  faults=[{faults}\n  ]{lines}"


def run(
    scenario: Scenario,
    seed: int = 0,
    *,
    faults: Faults | Sequence[Fault] = USUAL,
    brokers: int = 1,
    properties: Mapping[str, object] | None = None,
    limit_s: float = LIMIT_S,
    keep_trace: bool = False,
) -> Run:
    """Run a scenario once. An error is in the result, not raised.

    brokers, properties   as those of EmbeddedBroker
    limit_s               the simulated time after which a scenario that has not ended has failed
    keep_trace            whether `trace` gets all bytes that arrived anywhere, and every change of a file
    """
    drawn = faults.drawn(seed) if isinstance(faults, Faults) else list(faults)
    result = Run(seed, drawn)
    trace = Trace(lambda: loop.time(), keep=keep_trace)
    network = Network(seed, trace, lambda: PROCESS.get(None))
    loop = SimulationLoop(Random(f"{seed} threads"), network, limit_s)

    async def play(root: Path) -> None:
        broker = SimulatedBroker(loop, network, root, Random(f"{seed} disk"), brokers, properties or {})
        try:
            await broker.start()
            simulation = Simulation(loop, network, broker)
            result.log = simulation.log
            simulation.schedule(drawn)
            loop.call_later(COLLECT_S, _collect, loop)
            playing = loop.spawn(Process("scenario"), scenario(simulation))
            ends: list[asyncio.Future[Any]] = [simulation.failed, playing]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            next(end for end in ends if end.done()).result()
        finally:
            broker.kill()

    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        network.chance_name = Path(directory).name.encode()
        root = Path(directory, "data")
        root.mkdir()
        with _one_world(seed, loop, network):
            try:
                loop.run_until_complete(play(root))
            except Exception as error:  # noqa: BLE001 - part of the result
                result.error = error
            finally:
                result.simulated_s = loop.time()
                result.digest, result.trace = trace.digest, trace.lines
                loop.bury()
                loop.close()
    return result


def _collect(loop: SimulationLoop) -> None:
    gc.collect(1)  # objects that outlived a collection are left alone until the end
    loop.call_later(COLLECT_S, _collect, loop)


@contextlib.contextmanager
def _one_world(seed: int, loop: SimulationLoop, network: Network) -> Iterator[None]:
    """Let clocks, random numbers, connections and the garbage collector follow the simulation."""

    async def connected(address: Address, *_: object) -> Socket:
        return await network.connect(address.host, address.port)

    collects = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        with (
            simulated(seed, loop.time, clock_error_s, loop.advance),
            replaced(opening, "_connected_socket", connected),
        ):
            yield
    finally:
        gc.unfreeze()
        if collects:
            gc.enable()


def search(
    scenario: Scenario,
    seeds: Iterable[int],
    *,
    faults: Faults = USUAL,
    **options: Any,
) -> list[Run]:
    """Run a scenario with each seed. Raises SimulationFailed for the first that fails, with fewer faults.

    Options are those of `run`. Returns the runs.
    """
    runs = []
    for seed in seeds:
        result = run(scenario, seed, faults=faults, **options)
        if result.error is not None:
            raise SimulationFailed(shrunk(scenario, result, **options)) from result.error
        runs.append(result)
    return runs


def shrunk(scenario: Scenario, failed: Run, **options: Any) -> Run:
    """Return the failed run with fewer faults: they are left out as long as the error stays the same."""

    def fails(faults: Sequence[Fault]) -> Run | None:
        result = run(scenario, failed.seed, faults=faults, **options)
        return result if type(result.error) is type(failed.error) else None

    best, size = failed, len(failed.faults)
    while size:
        at = 0
        while at < len(best.faults):
            without = fails(best.faults[:at] + best.faults[at + size :])
            if without is not None:
                best = without
            else:
                at += size
        size //= 2
    return best

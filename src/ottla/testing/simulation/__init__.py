"""An application and its broker in one process, in virtual time, with faults that a seed decides.

    async def scenario(sim: simulation.Simulation) -> None:
        await sim.create_topic("orders")
        sim.start("worker", worker)
        ...

    simulation.search(scenario, seeds=range(100))

The clients (`ottla.aio`), the broker and the application run their real code; connections, clocks, threads,
random numbers and the disk are simulated. The same seed gives the same run.
"""

from ottla.model.errors import SimulationFailed, SimulationStuck
from ottla.testing.simulation.faults import Fault, Faults, Kind
from ottla.testing.simulation.running import Run, run, search, shrunk
from ottla.testing.simulation.simulation import Simulation

__all__ = [
    "Fault",
    "Faults",
    "Kind",
    "Run",
    "Simulation",
    "SimulationFailed",
    "SimulationStuck",
    "run",
    "search",
    "shrunk",
]

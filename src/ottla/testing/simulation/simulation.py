"""The world of a simulation: a broker, the processes of an application, and their faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from ottla.model.errors import OttlaError
from ottla.testing.simulation.brokers import SimulatedBroker
from ottla.testing.simulation.faults import Fault, Kind
from ottla.testing.simulation.loop import Process, SimulationLoop
from ottla.testing.simulation.network import Network

RESTART_S = 1.0
"""The shortest time between the kill of a process and its restart."""
LOOK_S = 0.1
CLOCK_ERROR_S = 1700.0
"""The largest error of a clock. Brokers refuse records that are an hour ahead of their own clock."""
LAST_ROOM = 4096
"""The most bytes that a disk that gets full still takes."""

Main = Callable[[], Coroutine[Any, Any, object]]


class Application:
    """A process of the application under test, over all its restarts."""

    def __init__(self, name: str, main: Main) -> None:
        self.name = name
        self.main = main
        self.process: Process | None = None
        self.is_over = False


class Simulation:
    """The argument of a scenario. Everything happens in virtual time; `asyncio.sleep(3600)` costs nothing.

    bootstrap   the value of bootstrap.servers for clients
    log         the faults so far, a line each
    """

    def __init__(self, loop: SimulationLoop, network: Network, broker: SimulatedBroker) -> None:
        self.bootstrap = broker.bootstrap
        self.log: list[str] = []
        self._loop = loop
        self._network = network
        self._broker = broker
        self._applications: list[Application] = []
        self.failed: asyncio.Future[None] = loop.create_future()
        self._chores: set[asyncio.Task[None]] = set()

    @property
    def now_s(self) -> float:
        """Seconds since the simulation began."""
        return self._loop.time()

    async def create_topic(
        self, name: str, partitions: int = 1, *, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic. Raises KafkaError."""
        await self.until(lambda: self._broker.is_up, 3600)
        await self._broker.create_topic(name, partitions, config or {})

    def start(self, name: str, main: Main) -> None:
        """Run a coroutine function as a process of its own, which may be killed and frozen.

        It is started again after a kill, and after an error of ottla, as a supervisor would do. Another error
        ends the simulation. It ends when `main` returns. State that survives kills must be outside of `main`.
        """
        application = Application(name, main)
        self._applications.append(application)
        self._run(application)

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `condition()` is true. Raises AssertionError if it is not within `timeout_s` seconds."""
        end = self.now_s + timeout_s
        while not condition():
            assert self.now_s < end, f"not true after {timeout_s:g} simulated seconds"
            await asyncio.sleep(LOOK_S)

    # --- processes

    def _run(self, application: Application) -> None:
        if application.is_over:
            return
        application.process = process = Process(application.name, application.process)
        self._note(f"{application.name} starts")
        task = self._loop.spawn(process, application.main())
        task.add_done_callback(lambda done: self._ended(application, process, done))

    def _ended(self, application: Application, process: Process, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        self._note(f"{application.name} ends: {error!r}")
        self._loop.kill(process)
        if error is None:
            application.is_over = True
        elif isinstance(error, OttlaError):
            self._loop.call_later(RESTART_S, self._run, application)
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    def _note(self, text: str) -> None:
        line = f"{self.now_s:.3f} {text}"
        self.log.append(line)
        self._network.trace.note(text)

    # --- faults

    def schedule(self, faults: Sequence[Fault]) -> None:
        """Make these faults happen at their times."""
        for fault in faults:
            self._loop.call_at(fault.at_s, self._strike, fault)

    def _strike(self, fault: Fault) -> None:
        match fault.kind:
            case Kind.CUT:
                if links := [link for link in self._network.links if link.ends]:
                    link = _chosen(links, fault)
                    self._note(f"cut: {link}")
                    link.cut()
            case Kind.BROKER_KILL | Kind.POWER_LOSS | Kind.DISK_FULL | Kind.LEADER_MOVE:
                if self._broker.is_up:
                    self._strike_broker(fault)
            case Kind.STALL | Kind.CLOCK_JUMP:
                living = [*self._living(), *([self._broker.process] if self._broker.process else [])]
                if living:
                    self._strike_process(fault, _chosen(living, fault))
            case Kind.KILL | Kind.FREEZE:
                self._strike_application(fault)

    def _strike_process(self, fault: Fault, process: Process) -> None:
        if fault.kind == Kind.STALL:
            self._note(f"stall: {process.name}, for {fault.duration_s} s")
            self._network.stall(process, self.now_s + fault.duration_s)
        else:
            size_s = min(fault.duration_s * 60, CLOCK_ERROR_S)
            process.clock_error_s = size_s if round(fault.choice * 10_000) % 2 else -size_s
            self._note(f"clock jump: that of {process.name} is wrong by {process.clock_error_s:.0f} s")

    def _strike_broker(self, fault: Fault) -> None:
        if fault.kind == Kind.LEADER_MOVE:
            if moved := self._broker.move_leader(fault.choice):
                self._note(f"leader move: {moved}")
            return
        self._note(f"{fault.kind}, for {fault.duration_s} s")
        if fault.kind == Kind.DISK_FULL:
            self._broker.fill_disk(round(fault.choice * LAST_ROOM))
            self._loop.call_later(fault.duration_s, self._broker.fill_disk, None)
            return
        if fault.kind == Kind.POWER_LOSS:
            self._broker.lose_power(fault.duration_s + RESTART_S)
        else:
            self._broker.kill()
        self._loop.call_later(fault.duration_s + RESTART_S, self._start_broker)

    def _start_broker(self) -> None:
        self._note("the broker starts")
        task = self._loop.create_task(self._broker.start())
        self._chores.add(task)
        task.add_done_callback(self._broker_started)

    def _broker_started(self, task: asyncio.Task[None]) -> None:
        self._chores.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _living(self) -> list[Process]:
        return [item.process for item in self._applications if item.process and not item.process.is_dead]

    def _strike_application(self, fault: Fault) -> None:
        living = [item for item in self._applications if item.process and not item.process.is_dead]
        if not living:
            return
        application = _chosen(living, fault)
        process = application.process
        assert process is not None
        self._note(f"{fault.kind}: {application.name}, for {fault.duration_s} s")
        if fault.kind == Kind.FREEZE:
            self._loop.freeze(process)
            self._loop.call_later(fault.duration_s, self._loop.thaw, process)
        else:
            self._loop.kill(process)
            self._loop.call_later(fault.duration_s + RESTART_S, self._run, application)


def _chosen(items: Sequence[Any], fault: Fault) -> Any:
    return items[int(fault.choice * len(items))]

"""An event loop in virtual time, whose callbacks belong to simulated processes.

When nothing is ready, the clock jumps to the next timer: a pause of an hour costs nothing. A `Process` is a
value of a context variable, so whatever a process starts belongs to it: tasks, timers, connections. A process
that is killed ends between two callbacks; none of its code runs any more, not even `finally`. A process that
is frozen runs nothing until it is thawed. Work for threads is done on the loop, a moment after it was given.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import socket
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ottla.model.errors import SimulationStuck
from ottla.testing.simulation.network import Network, Socket

T = TypeVar("T")

TICK_S = 1e-6
"""How late timers fire: callbacks of a timer that fired early would set it again."""
CANCELLED_MIN = 100
"""So many cancelled timers may wait for their time."""
NESTED_MAX = 100
"""How many `finally` blocks of one coroutine may await something."""
THREAD_S = (0.000_02, 0.002)
"""The shortest and longest time that work for a thread takes."""


class Process:
    """A simulated process. Its wall clock is wrong by `clock_error_s`, which a restart keeps."""

    def __init__(self, name: str, before: Process | None = None) -> None:
        self.name = name
        self.is_dead = False
        self.clock_error_s: float = before.clock_error_s if before is not None else 0.0
        self.frozen: deque[_Handle] | None = None
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<Process {self.name}{', dead' if self.is_dead else ''}>"


PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("PROCESS")


def clock_error_s() -> float:
    """Return the error of the running process's wall clock."""
    process = PROCESS.get(None)
    return process.clock_error_s if process is not None else 0.0


class _Handle(asyncio.Handle):
    """A callback of a process."""

    __slots__ = ()
    _callback: Callable[..., object]
    _args: tuple[Any, ...]
    _context: contextvars.Context
    _cancelled: bool


class _TimerHandle(asyncio.TimerHandle, _Handle):
    """A callback of a process at some time."""

    __slots__ = ()
    _scheduled: bool


class SimulationLoop(asyncio.BaseEventLoop):
    """The loop of all processes. The simulation ends at `limit_s`.

    Timers of the same time fire in the order in which they were made.
    """

    def __init__(self, chance: Random, network: Network, limit_s: float) -> None:
        super().__init__()
        self._now = 0.0
        self._limit_s = limit_s
        self._threads = chance
        self._network = network
        self._ready: deque[_Handle] = deque()
        self._stopping: bool
        self._timers: list[tuple[float, int, _TimerHandle]] = []
        self._timer_count = 0
        self._cancelled_count = 0
        self._owners: WeakKeyDictionary[asyncio.Task[Any], Process] = WeakKeyDictionary()
        self._left: list[asyncio.Task[Any]] = []  # of dead processes: kept, or their `finally` would run

    # --- time

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
        if self._now > self._limit_s:
            raise SimulationStuck(f"not done in {self._limit_s:.0f} simulated seconds")

    # --- callbacks, in place of those methods of BaseEventLoop

    def _write_to_self(self) -> None:
        pass

    def _call_soon(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        """Run what is ready, or what the next timers make ready; the clock jumps to them."""
        ready, timers = self._ready, self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)[2]._scheduled = False
            self._cancelled_count -= 1
        if not (ready or self._stopping):
            if not timers:
                raise SimulationStuck("every process waits for something that no other one will do")
            self.advance(max(0.0, timers[0][0] - self._now) + TICK_S)
        while timers and timers[0][0] < self._now:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                self._run_handle(handle)

    def _run_handle(self, handle: _Handle) -> None:
        context = handle._context
        process = context.get(PROCESS)
        if process is not None and (process.is_dead or process.frozen is not None):
            if process.frozen is not None:
                process.frozen.append(handle)
            return
        try:
            context.run(handle._callback, *handle._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - told as by any loop
            told = {"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle}
            self.call_exception_handler(told)

    def _timer_handle_cancelled(self, handle: _TimerHandle) -> None:
        """Count a timer that is about to be cancelled. Drops cancelled ones if they are too many."""
        if not handle._scheduled:
            return
        if self._cancelled_count > max(CANCELLED_MIN, len(self._timers) // 2):
            self._timers[:] = [item for item in self._timers if not item[2]._cancelled]
            heapq.heapify(self._timers)
            self._cancelled_count = 0
        self._cancelled_count += 1

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        timer._scheduled = True
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, timer))
        return timer

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = super().create_task(coro, name=name, context=context)
        process = (context or contextvars.copy_context()).get(PROCESS)
        if process is not None:
            self._owners[task] = process
        return task

    # --- processes

    def spawn(self, process: Process, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as a task of a process."""
        return self.create_task(work, name=process.name, context=process.context)

    def kill(self, process: Process) -> None:
        """End a process now. Its connections break."""
        process.is_dead = True
        process.frozen = None
        for task in self.tasks_of(process):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self._left.append(task)
        self._network.died(process)

    def tasks_of(self, process: Process) -> list[asyncio.Task[Any]]:
        """Return the tasks of a process that have not ended, the oldest first."""
        return [task for task, owner in self._owners.items() if owner is process and not task.done()]

    def freeze(self, process: Process) -> None:
        """Run no callbacks of a process until `thaw`, as after SIGSTOP."""
        if not process.is_dead and process.frozen is None:
            process.frozen = deque()

    def thaw(self, process: Process) -> None:
        """Run the callbacks that have waited since `freeze`."""
        waiting, process.frozen = process.frozen, None
        if waiting is not None and not process.is_dead:
            self._ready.extend(waiting)

    def bury(self) -> None:
        """Close the tasks that dead processes have left. Called at the end, just before the loop is closed.

        A `finally` may begin more tasks. They must belong to this loop, so that they are closed too: without
        a running loop, asyncio would give them to the thread's own loop, where they would stay.
        """
        buried: set[asyncio.Task[Any]] = set()
        self.set_exception_handler(lambda _loop, _context: None)  # ignores errors of dead processes
        asyncio._set_running_loop(self)
        try:
            with warnings.catch_warnings(action="ignore"):  # warnings of coroutines that are never awaited
                for _ in range(NESTED_MAX):
                    unburied = [task for task in asyncio.all_tasks(self) if task not in buried]
                    if not unburied:
                        break
                    for task in unburied:
                        close_quietly(task.get_coro())
                    buried.update(unburied)
                self._ready.clear()
        finally:
            asyncio._set_running_loop(None)
        self._left.clear()

    # --- threads, names and sockets

    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, work: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Do the work a moment later, on the loop."""
        future: asyncio.Future[T] = self.create_future()

        def do() -> None:
            try:
                result = work(*args)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001 - raised in the task that awaits the future
                if not future.cancelled():
                    future.set_exception(error)
            else:
                if not future.cancelled():
                    future.set_result(result)

        self.call_later(self._threads.uniform(*THREAD_S), do)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there is no executor."""

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (str(host), int(port)))]

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        sock: Any = None,
        ssl: Any = None,
        **_: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if ssl:
            raise ValueError("security.protocol: simulated connections have no TLS, use PLAINTEXT")
        if not isinstance(sock, Socket):
            if host is None or port is None:
                raise ValueError(
                    "a simulation connects to a host and a port of its own, or by its own sockets"
                )
            sock = await self._network.connect(host, port)
        protocol = protocol_factory()
        return self._network.adopt(sock, protocol), protocol

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        start_serving: bool = True,
        **_: Any,
    ) -> Any:
        server = self._network.listen(protocol_factory, str(host or "127.0.0.1"), port or 0)
        if start_serving:
            await server.start_serving()
        return server


def close_quietly(coroutine: Any) -> None:
    """Close a coroutine; errors of its `finally` blocks are ignored."""
    for _ in range(NESTED_MAX):
        try:
            coroutine.close()
        except RuntimeError:  # a `finally` awaits something: the next try closes that
            continue
        except BaseException:  # noqa: BLE001 - ignored
            return
        return

"""Waiting on an event loop: replacements for the locks, conditions and pauses of threads.

The cores that threads and asyncio share take a condition. Here nothing has to be locked, since one loop runs
everything, and a wait is a future.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Self, TypeVar

T = TypeVar("T")

DONE_HERE_BYTES = 32 * 1024
"""Up to this size, bytes are decoded or encoded on the loop: a thread would take longer to begin."""


ROWS_IN_A_ROW = 512
"""After this many rows the loop serves others, even if the application awaits nothing in between."""


class LoopCondition:
    """A condition of one event loop. `with` locks nothing, `until` waits; `wait_for` only checks."""

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[None], None] = {}  # in the order in which they began to wait

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: nothing was locked."""

    def notify_all(self) -> None:
        """Wake all that wait: what they wait for may be true now."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:  # noqa: ARG002
        """Return whether `predicate` is true now: the loop must not block."""
        return predicate()

    async def until(self, predicate: Callable[[], bool], seconds: float | None) -> bool:
        """Wait until `predicate` is true, at most `seconds`; returns whether it is. None waits for ever."""
        if predicate():
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not predicate():
                    await self._notified()
        return predicate()

    async def notified(self, seconds: float | None) -> None:
        """Wait for the next `notify_all`, at most `seconds`; None waits for ever."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._notified()

    async def _notified(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)


async def is_set_within(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for an event, at most `seconds`; returns whether it is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


class Tasks:
    """The tasks of one owner: kept while they run, all ended by `cancel`."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}  # the oldest first

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine as a task."""
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            task.exception()  # the task's awaiter gets the error; if there is none, asyncio must not log it

    async def cancel(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@contextlib.asynccontextmanager
async def finishing() -> AsyncIterator[Callable[[Coroutine[Any, Any, Any]], None]]:
    """Collect steps of a shutdown: each is run, in order, even if earlier ones fail or the caller is
    cancelled.

    The first error is raised at the end.
    """
    steps: list[Coroutine[Any, Any, Any]] = []
    yield steps.append

    async def all_steps() -> None:
        failure: BaseException | None = None
        for step in steps:
            try:
                await step
            except BaseException as error:  # noqa: BLE001 - raised below
                failure = failure or error
        if failure is not None:
            raise failure

    await uncancelled(all_steps())


async def uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Run all of `work`. A cancellation of the caller takes effect when it is done."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise


class LoopWaits:
    """How conversations wait on a loop: a cancellation ends each wait."""

    is_over = False

    async def pause(self, duration_ms: float) -> None:
        """Wait for `duration_ms`."""
        await asyncio.sleep(duration_ms / 1000)

    def lock(self) -> asyncio.Lock:
        """Return a new lock; its owner must not take it twice."""
        return asyncio.Lock()

    async def computed(self, work: Callable[[], T], nbytes: int) -> T:
        """Return the result of `work`; a thread runs it if it handles many bytes."""
        if nbytes <= DONE_HERE_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(None, work)

    async def blocking(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which blocks: a thread runs it, to its end even if the caller is
        cancelled.
        """
        return await asyncio.get_running_loop().run_in_executor(None, work)

    async def whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Run all of `work`: a cancellation of the caller takes effect when it is done."""
        return await uncancelled(work)


LOOP_WAITS = LoopWaits()

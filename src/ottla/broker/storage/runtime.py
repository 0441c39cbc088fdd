"""What runs the brokers of one process: the event loop, its helper threads, the clock and the turn.

Everything in `storage`, `groups` and `serving` belongs to this one loop. Work that blocks or takes long goes
to threads, in kinds that cannot keep each other waiting:

    readers    reads that are not in memory, conversions, compaction, removal of files
    flushers   fsync: acknowledgements wait for it, so no reader may fill these threads
    checkers   looking into records: one thread, since more would only take turns with the loop
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ottla.broker.storage.turn import WriteTurn

T = TypeVar("T")

READERS = 4
FLUSHERS = 2


def wall_clock_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


CATCHING_UP = 0.1
"""How much faster or slower than time a steady clock goes until it agrees with the wall clock again."""


class SteadyClock:
    """Milliseconds since 1970 that do not jump: what deadlines are counted by.

    A change of the wall clock neither ends sessions and locks nor prolongs them. The difference is made up
    slowly: deadlines move by a tenth of what is left.
    """

    def __init__(self, wall_ms: Callable[[], int], seconds: Callable[[], float]) -> None:
        self._wall_ms, self._seconds = wall_ms, seconds
        self._ms, self._at_s = float(wall_ms()), seconds()

    def __call__(self) -> int:
        at_s = self._seconds()
        passed_ms = (at_s - self._at_s) * 1000
        slack_ms = passed_ms * CATCHING_UP
        behind_ms = self._wall_ms() - self._ms - passed_ms
        self._ms += passed_ms + min(max(behind_ms, -slack_ms), slack_ms)
        self._at_s = at_s
        return int(self._ms)


SLICE_S = 0.005
"""How long a slice of long work may take on the loop before clients get their turn."""

Work = Generator[None, None, T]


class SlicedWork:
    """Long work that has to be done on the loop, since the loop owns what it changes: a slice in each turn.

    The works take turns, one slice each: many of them do not add up, and a short one does not wait for all.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Work[Any], asyncio.Future[Any]]] = deque()

    def add(self, work: Work[T]) -> asyncio.Future[T]:
        """Do `work`, which yields where it may be interrupted. The future gets what it returns or raises."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append((work, future))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._run)
        return future

    def _run(self) -> None:
        end = self._loop.time() + SLICE_S
        work, future = self._waiting[0]
        try:
            next(work)
            while self._loop.time() < end:
                next(work)
        except StopIteration as done:
            self._end(future, done.value, None)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the work
            self._end(future, None, error)
        else:
            self._waiting.rotate(-1)
        if self._waiting:
            self._loop.call_soon(self._run)

    def _end(self, future: asyncio.Future[Any], result: object, error: Exception | None) -> None:
        self._waiting.popleft()
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    async def idle(self) -> None:
        """Wait until nothing is left to do."""
        while self._waiting:
            await asyncio.wait([self._waiting[-1][1]])


class Runtime:
    """Made inside a running event loop. `now_ms` is the broker's only wall clock, for the times of records.

    `steady_ms` is for deadlines: of sessions, locks and transactions.
    """

    def __init__(
        self, *, flush_always: bool, after_turn: Callable[[], None], now_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.readers = ThreadPoolExecutor(READERS, "ottla-reader")
        self.flushers = ThreadPoolExecutor(FLUSHERS, "ottla-flusher")
        self.checkers = ThreadPoolExecutor(1, "ottla-checker")
        self.now_ms = now_ms
        self.steady_ms: Callable[[], int] = SteadyClock(lambda: self.now_ms(), self.loop.time)
        self.turn = WriteTurn(self.loop, self.flushers, flush_always=flush_always, after=after_turn)
        self.slices = SlicedWork(self.loop)
        self.is_closed = False

    async def close(self) -> None:
        """Finish what is under way, write and flush what is staged, then end the threads."""
        await self.slices.idle()
        await self.turn.drain()
        self.is_closed = True
        self.end_threads()

    def end_threads(self) -> None:
        """Wait for what the threads do, and end them."""
        for threads in (self.readers, self.flushers, self.checkers):
            threads.shutdown()

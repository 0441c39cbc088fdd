"""Time as an argument: no other module of the client reads a clock or sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

SIGNAL_CHECK_S = 0.25
"""The longest wait without a check for signals, and so the longest delay of a Ctrl-C."""


TRY_MS = 1_000.0
"""The time that each try gets, even if less is left: the answer of a broker says more than a timeout."""


class Clock(Protocol):
    """A monotonic clock in milliseconds, and a pause."""

    def now_ms(self) -> float:
        """Milliseconds since some moment."""

    def pause(self, duration_ms: float, until: threading.Event | None = None) -> bool:
        """Wait for `duration_ms`, or until the event is set; returns whether it is set."""


class Flag(Protocol):
    """The part of threading.Event that is shared with other kinds of waiting."""

    def set(self) -> None:
        """Wake all that wait for it."""

    def clear(self) -> None:
        """Make later calls wait again."""

    def is_set(self) -> bool:
        """Whether it is set."""


class Condition(Protocol):
    """The part of threading.Condition that is shared with other kinds of waiting."""

    def __enter__(self) -> object:
        """Lock it."""

    def __exit__(self, *error: Any) -> object:
        """Unlock it."""

    def notify_all(self) -> None:
        """Wake all that wait: what they wait for may be true now."""

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `predicate` is true, at most `timeout` seconds; returns whether it is."""


class MonotonicClock:
    """The machine's monotonic clock."""

    def now_ms(self) -> float:
        """Milliseconds since some moment."""
        return time.monotonic() * 1000.0

    def pause(self, duration_ms: float, until: threading.Event | None = None) -> bool:
        """Wait for `duration_ms`, or until the event is set; returns whether it is set."""
        seconds = max(0.0, duration_ms) / 1000.0
        if until is not None:
            return until.wait(seconds)
        time.sleep(seconds)
        return False


MONOTONIC = MonotonicClock()


def in_seconds(clock: Clock) -> Callable[[], float]:
    """Return a function for the time of a clock in seconds; for MONOTONIC one in C, for loops in C."""
    return time.monotonic if clock is MONOTONIC else lambda: clock.now_ms() / 1000


class Deadline:
    """The moment by which something must be done. With `timeout_ms=None` there is no limit."""

    __slots__ = ("_at_ms", "clock", "timeout_ms")

    def __init__(self, clock: Clock, timeout_ms: float | None) -> None:
        self.clock = clock
        self.timeout_ms = timeout_ms
        self._at_ms = None if timeout_ms is None else clock.now_ms() + timeout_ms

    @property
    def passed(self) -> bool:
        """Whether the moment has passed."""
        return self._at_ms is not None and self.clock.now_ms() >= self._at_ms

    def left_ms(self) -> float | None:
        """The time that is left, never negative; None without a limit."""
        return None if self._at_ms is None else max(0.0, self._at_ms - self.clock.now_ms())

    def capped_ms(self, duration_ms: float) -> float:
        """`duration_ms`, or the time that is left if that is less."""
        left = self.left_ms()
        return duration_ms if left is None else min(duration_ms, left)

    def for_try(self, most_ms: float) -> Deadline:
        """The deadline of one try: `most_ms` from now, or this deadline if that is sooner.

        Every try gets TRY_MS, so the last try may end up to TRY_MS after this deadline. A deadline of 0 means
        one try, which may take `most_ms`.
        """
        left_ms = self.left_ms()
        if left_ms is None or not self.timeout_ms:
            return Deadline(self.clock, most_ms)
        return Deadline(self.clock, min(most_ms, max(left_ms, TRY_MS)))


def wait_for(condition: Condition, predicate: Callable[[], bool], timeout: float | None) -> bool:
    """Wait until `predicate` is true, at most `timeout` seconds; returns whether it is. None waits for ever.

    The caller holds the condition. A wait in one piece can miss a Ctrl-C: a signal that arrives after Python
    has looked for signals and before the lock blocks does not end it. So a long wait is several short ones.
    """
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        left = SIGNAL_CHECK_S if until is None else min(SIGNAL_CHECK_S, until - time.monotonic())
        if condition.wait_for(predicate, max(0.0, left)):
            return True
        if until is not None and time.monotonic() >= until:
            return False


def taken(queue: SimpleQueue[T]) -> T:
    """Wait for something that any thread or a signal handler puts into the queue, and return it.

    Unlike an event, a queue may be used by a handler that interrupts the thread that waits. Many short waits,
    for the reason that `wait_for` gives.
    """
    while True:
        with suppress(Empty):
            return queue.get(timeout=SIGNAL_CHECK_S)

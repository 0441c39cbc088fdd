"""Time, handed in: nothing else in the client reads a clock or sleeps."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Milliseconds that never go back, and a pause."""

    def now_ms(self) -> float:
        """Milliseconds since some moment."""

    def pause(self, duration_ms: float, until: threading.Event | None = None) -> bool:
        """Wait so long, or until the event is set; whether it is set."""


class MonotonicClock:
    """The machine's."""

    def now_ms(self) -> float:
        """Milliseconds since some moment."""
        return time.monotonic() * 1000.0

    def pause(self, duration_ms: float, until: threading.Event | None = None) -> bool:
        """Wait so long, or until the event is set; whether it is set."""
        seconds = max(0.0, duration_ms) / 1000.0
        if until is not None:
            return until.wait(seconds)
        time.sleep(seconds)
        return False


MONOTONIC = MonotonicClock()


class Deadline:
    """A moment of a clock until which something may take. `None` milliseconds are no limit."""

    __slots__ = ("_at_ms", "clock", "timeout_ms")

    def __init__(self, clock: Clock, timeout_ms: float | None) -> None:
        self.clock = clock
        self.timeout_ms = timeout_ms
        self._at_ms = None if timeout_ms is None else clock.now_ms() + timeout_ms

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self._at_ms is not None and self.clock.now_ms() >= self._at_ms

    def left_ms(self) -> float | None:
        """What is left, never negative; None without a limit."""
        return None if self._at_ms is None else max(0.0, self._at_ms - self.clock.now_ms())

    def capped_ms(self, duration_ms: float) -> float:
        """`duration_ms`, or what is left if that is less."""
        left = self.left_ms()
        return duration_ms if left is None else min(duration_ms, left)

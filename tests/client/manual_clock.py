"""A clock that stands still until somebody pauses: tests of waiting take no time."""

from __future__ import annotations

import threading


class ManualClock:
    """`pauses` has what was waited for, in ms."""

    def __init__(self) -> None:
        self.at_ms = 1_000.0
        self.pauses: list[float] = []

    def now_ms(self) -> float:
        return self.at_ms

    def pause(self, duration_ms: float, until: threading.Event | None = None) -> bool:
        if until is not None and until.is_set():
            return True
        self.pauses.append(duration_ms)
        self.at_ms += duration_ms
        return False

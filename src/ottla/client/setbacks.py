"""Brokers that could not be reached, and when each may be tried again. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.client.retry import Backoff
from ottla.model.chance import Chance


class _Setback(NamedTuple):
    """Failures in a row, and when the broker may be tried again."""

    failures: int
    until_ms: float


class Setbacks:
    """The pauses of one pool of connections."""

    def __init__(self, backoff: Backoff, now_ms: Callable[[], float], chance: Chance) -> None:
        self._backoff = backoff
        self._now_ms = now_ms
        self._chance = chance
        self._setbacks: dict[int, _Setback] = {}

    def left_ms(self, broker_id: int) -> float:
        """Return how long the broker must not be tried."""
        setback = self._setbacks.get(broker_id)
        return max(0.0, setback.until_ms - self._now_ms()) if setback is not None else 0.0

    def failed(self, broker_id: int) -> None:
        """Note that the broker could not be reached, or is stuck."""
        before = self._setbacks.get(broker_id)
        failures = before.failures + 1 if before is not None else 1
        pause_ms = self._backoff.pause_ms(failures, self._chance)
        self._setbacks[broker_id] = _Setback(failures, self._now_ms() + pause_ms)

    def reached(self, broker_id: int) -> None:
        """Note that the broker was reached."""
        self._setbacks.pop(broker_id, None)

"""Brokers that could not be reached, and when each may be tried again. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.client.retry import Backoff
from ottla.model.chance import Chance


class _Pause(NamedTuple):
    """Failures in a row, and when the broker may be tried again."""

    failures: int
    until_ms: float


class ReconnectPauses:
    """The pauses of one pool of connections."""

    def __init__(self, backoff: Backoff, now_ms: Callable[[], float], chance: Chance) -> None:
        self._backoff = backoff
        self._now_ms = now_ms
        self._chance = chance
        self._pauses: dict[int, _Pause] = {}

    def left_ms(self, broker_id: int) -> float:
        """Return how long the broker must not be tried."""
        pause = self._pauses.get(broker_id)
        return max(0.0, pause.until_ms - self._now_ms()) if pause is not None else 0.0

    def failed(self, broker_id: int) -> None:
        """Note that the broker could not be reached, or is stuck."""
        before = self._pauses.get(broker_id)
        failures = before.failures + 1 if before is not None else 1
        pause_ms = self._backoff.pause_ms(failures, self._chance)
        self._pauses[broker_id] = _Pause(failures, self._now_ms() + pause_ms)

    def reached(self, broker_id: int) -> None:
        """Note that the broker was reached."""
        self._pauses.pop(broker_id, None)

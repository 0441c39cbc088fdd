"""What tests hand in as watches and listeners: they note what they are told and can be waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_Told = TypeVar("_Told")

WAIT_S = 120.0
"""Longest wait for something that must happen; reached only when a test fails."""


class Notes(Generic[_Told]):
    """A callback that keeps every argument it is called with."""

    def __init__(self) -> None:
        self.told: list[_Told] = []
        self._changed = threading.Condition()

    def __call__(self, value: _Told) -> None:
        with self._changed:
            self.told.append(value)
            self._changed.notify_all()

    def await_count(self, count: int) -> list[_Told]:
        """Wait until it was called so often."""
        return self.await_that(lambda told: len(told) >= count)

    def await_that(self, condition: Callable[[list[_Told]], bool]) -> list[_Told]:
        """Wait until what was told fulfils the condition."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self.told), WAIT_S), f"only told {self.told}"
            return list(self.told)

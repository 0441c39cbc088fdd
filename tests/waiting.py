"""Waiting for other threads, processes and servers to do something."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

PATIENCE_S = 120.0
"""Long enough for a machine with ten times more work than cores; waiting ends when the condition holds."""
PAUSE_S = 0.02


def wait_for(
    condition: Callable[[], Value],
    description: str | Callable[[], object] = "",
    timeout: float = PATIENCE_S,
    *,
    pause: float = PAUSE_S,
) -> Value:
    """Call `condition` until it returns something true, and return that.

    Raises AssertionError after `timeout` seconds. Its text names what was awaited (`description`, or what
    calling that returns), what `condition` returned last, and where the condition is written.
    """
    deadline = time.monotonic() + timeout
    while True:
        is_last = time.monotonic() >= deadline
        value = condition()
        if value:
            return value
        if is_last:
            raise AssertionError(_text(condition, description, timeout, value))
        time.sleep(pause)


def _text(
    condition: Callable[[], object],
    description: str | Callable[[], object],
    timeout: float,
    value: object,
) -> str:
    awaited = description() if callable(description) else description
    code = getattr(condition, "__code__", None)
    written = f" (condition at {code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"not within {timeout:g} s: {awaited or 'the condition'}; it returned {value!r}{written}"

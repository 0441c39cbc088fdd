"""Clients that are dropped without `close()`: warn about them, and close them on their loop."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any

from ottla.aio.waiting import Tasks
from ottla.model.forgotten import stop_if_forgotten

_CLOSING = Tasks()
"""The tasks that close forgotten clients; nobody else refers to them."""


def close_if_forgotten(
    owner: object,
    name: str,
    close: Callable[[], Coroutine[Any, Any, object]],
    *,
    is_running: Callable[[], bool],
) -> weakref.finalize[..., object]:
    """When `owner` is garbage collected: emit a ResourceWarning that begins with `name`, then run `close`.

    If `is_running` returns False there is no warning. Nothing happens unless the loop runs in which `owner`
    was made: a loop that has ended has ended its tasks too. Neither function may refer to `owner`. Call
    `detach()` of what is returned when `owner` is closed.
    """
    loop, context = asyncio.get_running_loop(), copy_context()

    def on_loop(stop: Callable[[], object]) -> None:
        # The collection may happen in any thread, and between any two steps of the loop.
        if loop.is_running():
            loop.call_soon_threadsafe(stop, context=context)

    return stop_if_forgotten(
        owner,
        name,
        partial(_begin, close),
        is_running=lambda: loop.is_running() and is_running(),
        start=on_loop,
    )


def _begin(close: Callable[[], Coroutine[Any, Any, object]]) -> None:
    _CLOSING.start(close(), "ottla-close-forgotten")

"""Connections whose answers are ready: they are written together, at the end of a turn of the loop."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Flushable(Protocol):
    """A connection with something to write."""

    def flush(self) -> None:
        """Write what is ready."""


class Output:
    """The connections of all brokers of the process. Owned by the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready: dict[Flushable, None] = {}

    def add(self, connection: Flushable) -> None:
        """Write `connection` at the end of this turn: it got an answer outside of its own."""
        if not self._ready:
            self._loop.call_soon(self.write)
        self._ready[connection] = None

    def write(self) -> None:
        """Write all connections that are ready."""
        while self._ready:
            connections, self._ready = self._ready, {}
            for connection in connections:
                connection.flush()

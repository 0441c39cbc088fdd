"""SIGINT and SIGTERM as a request to stop, for commands that serve until one comes."""

from __future__ import annotations

import signal
from queue import Empty, SimpleQueue

from ottla.client.clock import SIGNAL_CHECK_S
from ottla.model.closing import Closing

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class StopSignals(Closing):
    """Takes both signals from its making to `close`. Only the main thread may make and ask it.

    A handler runs in the main thread, between any two steps of it. So it uses no lock that this thread may
    hold: a queue, and no event.
    """

    def __init__(self) -> None:
        self._arrived: SimpleQueue[int] = SimpleQueue()
        self._is_over = False
        self._before = {number: signal.signal(number, self._take) for number in _NUMBERS}

    def _take(self, number: int, _: object) -> None:
        self._arrived.put(number)

    def wait(self, timeout_s: float = SIGNAL_CHECK_S) -> bool:
        """Wait for a signal, at most `timeout_s`; returns whether one has come since the start.

        The handler of a signal that comes at the wrong moment runs when this wait is over, so a command waits
        again and again.
        """
        if not self._is_over:
            try:
                self._arrived.get(timeout=timeout_s)
            except Empty:
                return False
            self._is_over = True
        return True

    def close(self) -> None:
        """Give the signals back to the handlers that they had before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

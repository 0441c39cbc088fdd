"""Whether streams may hand out messages: a lease on our ownership, renewed by every answer of ZooKeeper.

ZooKeeper keeps a session for its timeout after the last request. So an answer proves that our nodes exist
until the time when the request was sent + session timeout, whatever happens to the network or this process.
Streams compare `until_ms` with the clock before every message (`while_open`): a process that was stopped for
a minute finds the lease over, even though none of its threads has seen yet that the session is lost.

GATE_TABLE has the states; in OPEN, `until_ms` is when the lease ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from itertools import repeat, starmap, takewhile
from math import inf
from operator import gt, mul, truth

SHUT = -inf


class GateState(Enum):
    """The states of a gate."""

    SHUT = "shut: the session is suspended, lost or closed"
    WAITING = "waiting for the first answer of the session"
    OPEN = "open until the lease ends"


class GateEvent(Enum):
    """What changes the state of a gate."""

    SHUT = "the session is suspended, lost or closed"
    REOPENED = "the session is connected, and what was lost is dropped"
    ANSWERED = "ZooKeeper answered"


GATE_TABLE: Mapping[tuple[GateState, GateEvent], GateState] = {
    (GateState.SHUT, GateEvent.SHUT): GateState.SHUT,
    (GateState.SHUT, GateEvent.REOPENED): GateState.WAITING,
    (GateState.SHUT, GateEvent.ANSWERED): GateState.SHUT,  # to a request from before the gate was shut
    (GateState.WAITING, GateEvent.SHUT): GateState.SHUT,
    (GateState.WAITING, GateEvent.REOPENED): GateState.WAITING,
    (GateState.WAITING, GateEvent.ANSWERED): GateState.OPEN,
    (GateState.OPEN, GateEvent.SHUT): GateState.SHUT,
    (GateState.OPEN, GateEvent.REOPENED): GateState.OPEN,
    (GateState.OPEN, GateEvent.ANSWERED): GateState.OPEN,
}
"""(state, event) → the next state."""


class DeliveryGate:
    """The session's thread shuts it, the rebalancing thread opens it; any thread may read `until_ms`."""

    def __init__(self) -> None:
        self._until_s = [SHUT]  # one number, in a list so that loops in C find the present one
        self._changed = threading.Condition(threading.Lock())
        self._state = GateState.SHUT

    @property
    def until_ms(self) -> float:
        """When the lease ends."""
        return self._until_s[0] * 1000

    def is_open(self, now_ms: float) -> bool:
        """Return whether a message may be handed out now."""
        return now_ms < self.until_ms

    def while_open(self, offsets: Iterator[int], now_s: Callable[[], float]) -> Iterator[int]:
        """Return an iterator that ends when the lease is over: the clock is read before each offset is taken.

        All of it are loops in C, so with a `now_s` in C no Python code runs for an offset.
        """
        ends_s = starmap(self._until_s.__getitem__, repeat((0,)))
        times_s = starmap(now_s, repeat(()))
        is_open = takewhile(truth, map(gt, ends_s, times_s))
        return map(mul, is_open, offsets)  # True times an offset is the offset

    def shut(self) -> None:
        """Shut at once; answers to requests that are under way do not open it."""
        with self._changed:
            self._state = GATE_TABLE[self._state, GateEvent.SHUT]
            self._until_s[0] = SHUT

    def reopen(self) -> None:
        """The session is connected, and what it lost was dropped: the next answer opens the gate."""
        with self._changed:
            self._state = GATE_TABLE[self._state, GateEvent.REOPENED]

    def extend(self, until_ms: float) -> None:
        """ZooKeeper answered: the lease lasts until `until_ms`."""
        with self._changed:
            self._state = GATE_TABLE[self._state, GateEvent.ANSWERED]
            if self._state is GateState.OPEN:
                self._until_s[0] = max(self._until_s[0], until_ms / 1000)
                self._changed.notify_all()

    def wait(self, timeout_ms: float | None) -> None:
        """Wait for the next answer or for `wake`, at most `timeout_ms`; None waits for ever."""
        with self._changed:
            self._changed.wait(None if timeout_ms is None else timeout_ms / 1000)

    def wake(self) -> None:
        """Wake all threads in `wait`."""
        with self._changed:
            self._changed.notify_all()

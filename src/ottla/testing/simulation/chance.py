"""Clocks and random numbers of this process, replaced for the time of a simulation.

Only the thread of the simulation sees the replacements. Not replaced: `datetime.now()`, and functions that a
module has imported by name before (`from time import time`).
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

EPOCH_S = 1_767_225_600.0
"""When simulations begin: 2026-01-01."""

_RealRandom = random.Random


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Give an attribute another value until the context ends."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def simulated(
    seed: object,
    now_s: Callable[[], float],
    clock_error_s: Callable[[], float],
    advance: Callable[[float], None],
) -> Iterator[None]:
    """Let clocks show simulated time, wall clocks with an error; random numbers come from the seed."""
    thread = threading.get_ident()
    source = _RealRandom(f"{seed} entropy")

    def here(simulated: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
        def choose(*args: Any) -> Any:
            return simulated(*args) if threading.get_ident() == thread else real(*args)

        return choose

    class SeededRandom(_RealRandom):
        """A Random that, if it gets no seed, takes one from the simulation."""

        def seed(self, a: Any = None, version: int = 2) -> None:
            if a is None and threading.get_ident() == thread:
                a = source.getrandbits(64)
            super().seed(a, version)

    def wall_s() -> float:
        return EPOCH_S + now_s() + clock_error_s()

    clocks: dict[str, Callable[..., Any]] = {
        "time": wall_s,
        "time_ns": lambda: int(wall_s() * 1e9),
        "monotonic": now_s,
        "monotonic_ns": lambda: int(now_s() * 1e9),
        "perf_counter": now_s,
        "perf_counter_ns": lambda: int(now_s() * 1e9),
        "thread_time": lambda: 0.0,
        "thread_time_ns": lambda: 0,
        "sleep": advance,
    }
    state = random.getstate()
    with ExitStack() as stack:
        for name, clock in clocks.items():
            stack.enter_context(replaced(time, name, here(clock, getattr(time, name))))
        urandom = here(source.randbytes, os.urandom)
        stack.enter_context(replaced(os, "urandom", urandom))
        stack.enter_context(replaced(random, "_urandom", urandom))
        stack.enter_context(replaced(random, "Random", SeededRandom))
        random.seed(f"{seed} common")
        try:
            yield
        finally:
            random.setstate(state)

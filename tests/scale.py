"""How much the suite does, and where its randomness begins.

By default every proof runs in a small size under a fixed seed. ``OTTLA_SOAK=1`` (`make soak`) runs the
nightly sizes under a new seed. ``OTTLA_SEED=n`` repeats a run; the seed is printed above the tests and in
failures. ``OTTLA_KILLS=n`` says how many processes are killed, and how many faults
happen, where that is what takes the time.
"""

from __future__ import annotations

import os
import random
from typing import TypeVar

import pytest

Size = TypeVar("Size")

SOAK = os.environ.get("OTTLA_SOAK", "0") not in {"", "0"}
if SOAK and not os.environ.get("OTTLA_SEED"):
    # In the environment, so that all processes of the run have the same.
    os.environ["OTTLA_SEED"] = str(random.SystemRandom().randrange(1 << 31))
SEED = int(os.environ.get("OTTLA_SEED") or 0)
REPLAY = f"{'OTTLA_SOAK=1 ' if SOAK else ''}OTTLA_SEED={SEED}"
"""What to put before the command that repeats a failing test."""


def sized(small: Size, soak: Size) -> Size:
    """Return the size of this run."""
    return soak if SOAK else small


def nightly(why: str) -> pytest.MarkDecorator:
    """Return a mark of tests that run in nightly sizes only."""
    return pytest.mark.skipif(not SOAK, reason=f"{why}: only in `make soak`")


def kills(small: int, soak: int) -> int:
    """Return how many kills or faults there are: OTTLA_KILLS if it is set, otherwise the size of this run."""
    return int(os.environ.get("OTTLA_KILLS") or sized(small, soak))


def seeded(name: object = "") -> random.Random:
    """Return random numbers that depend on the run's seed and on `name`."""
    return random.Random(f"{SEED} {name}")

"""A small part of the simulation of the whole system, and a system that has to fail."""

from __future__ import annotations

from collections import Counter

from tests.proof.simulated.scenario import World, Wrong
from tests.scale import REPLAY, SEED, sized

SEEDS = sized(2, 300)
MINUTES = sized(2, 60)


def test_the_whole_system_keeps_its_promises() -> None:
    """Groups of every kind and transactions, through kills, freezes, cuts, stalls and power losses."""
    counts: Counter[str] = Counter()
    for seed in range(SEED, SEED + SEEDS):
        world = World.of(seed, MINUTES * 60.0)
        result = world.run(seed)
        assert result.error is None, f"{REPLAY}: {result}"
        counts += world.counts
    assert min(counts[name] for name in ("records", "transactions", "commits", "faults")) > SEEDS


def test_what_a_power_loss_takes_is_seen() -> None:
    """Without flushes acknowledged records and commits are lost: the same checker has to say so."""
    world = World("os", 1, 60.0, ("power loss",), catch_up_s=30.0)
    error = world.run(SEED).error
    assert isinstance(error, Wrong), f"{REPLAY}: {error!r}"

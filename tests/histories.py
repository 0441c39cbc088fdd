"""Seeded histories of a simulated world. A failure names its seed: OTTLA_SEED=n replays that one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol


class World(Protocol):
    """What a history happens in."""

    counts: Counter[str]

    def run(self, steps: int) -> None:
        """Let so many things happen, and check after each."""


def counts_of(make_world: Callable[[int], World], seeds: Iterable[int], steps: int) -> Counter[str]:
    """Run a history for each seed; how often what happened in all of them."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        world = make_world(seed)
        try:
            world.run(steps)
        except Exception as error:
            error.add_note(f"replay with OTTLA_SEED={seed}")
            raise
        counts += world.counts
    return counts

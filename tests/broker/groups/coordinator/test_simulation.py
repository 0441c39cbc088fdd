"""Thousands of seeded histories of one group; see `simulation`.

OTTLA_SEED=n begins with history n; OTTLA_SOAK=1 runs many more.
"""

from __future__ import annotations

import pytest

from tests.broker.groups.coordinator.simulation import World
from tests.histories import counts_of
from tests.scale import SEED, sized

SEEDS = sized(500, 100_000)
STEPS = 110
BLOCKS = 10


@pytest.mark.parametrize("block", range(BLOCKS))
def test_invariants_hold_in_every_history(block: int) -> None:
    counts = counts_of(World, range(SEED + block, SEED + SEEDS, BLOCKS), STEPS)
    seeds = SEEDS // BLOCKS
    # A simulation in which little happens proves little.
    assert counts["generations"] > 2 * seeds
    assert counts["assignments"] > 4 * seeds
    assert counts["commits"] > seeds // 2
    assert counts["restarts"] > seeds // 2
    assert counts["failed appends"] > seeds // 10
    assert counts["fenced"] > seeds // 10

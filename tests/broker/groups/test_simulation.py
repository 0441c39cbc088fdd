"""Thousands of seeded histories of one group; see `simulation`.

OTTLA_SEED=n replays one history, OTTLA_SEEDS=n runs that many.
"""

from __future__ import annotations

import os

import pytest

from tests.broker.groups.simulation import World
from tests.histories import counts_of

SEEDS = int(os.environ.get("OTTLA_SEEDS", "2000"))
STEPS = 110
BLOCKS = 10


@pytest.mark.skipif("OTTLA_SEED" in os.environ, reason="one seed was asked for")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_invariants_hold_in_every_history(block: int) -> None:
    counts = counts_of(World, range(block, SEEDS, BLOCKS), STEPS)
    seeds = SEEDS // BLOCKS
    if seeds < 100:
        return
    # A simulation in which little happens proves little.
    assert counts["generations"] > 2 * seeds
    assert counts["assignments"] > 4 * seeds
    assert counts["commits"] > seeds // 2
    assert counts["restarts"] > seeds // 2
    assert counts["failed appends"] > seeds // 10
    assert counts["fenced"] > seeds // 10


@pytest.mark.skipif("OTTLA_SEED" not in os.environ, reason="set OTTLA_SEED to replay one history")
def test_replay_of_one_history() -> None:
    counts_of(World, [int(os.environ["OTTLA_SEED"])], STEPS)

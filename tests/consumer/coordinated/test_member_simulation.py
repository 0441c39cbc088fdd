"""Seeded histories of members and a coordinator; see `simulation`.

OTTLA_SEED=n begins with history n; OTTLA_SOAK=1 runs many more.
"""

from __future__ import annotations

import pytest

from tests.consumer.coordinated.simulation import World
from tests.histories import counts_of
from tests.scale import SEED, SOAK, sized

SEEDS = sized(120, 20_000)
STEPS = 400
BLOCKS = 4


@pytest.mark.parametrize("block", range(BLOCKS))
def test_one_owner_a_partition_and_all_converge_in_every_history(block: int) -> None:
    counts = counts_of(World, range(SEED + block, SEED + SEEDS, BLOCKS), STEPS)
    seeds = SEEDS // BLOCKS
    # A simulation in which little happens proves little.
    assert counts["taken"] > 5 * seeds
    assert counts["revoked"] > 2 * seeds
    assert counts["lost"] > seeds // 2
    assert counts["restarts"] > seeds // 2
    assert counts["JoinGroupResponse MEMBER_ID_REQUIRED"] > seeds
    if SOAK or not SEED:  # a few histories of any seed may lack what is rare
        assert counts["fenced"] > 0
        for error in ("REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"):
            assert counts[f"HeartbeatResponse {error}"] > 0

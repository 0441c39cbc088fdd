"""Seeded histories of members and a coordinator; see `simulation`.

OTTLA_SEED=n replays one history, OTTLA_SEEDS=n runs that many.
"""

from __future__ import annotations

import os

import pytest

from tests.grouped.simulation import World
from tests.histories import counts_of

SEEDS = int(os.environ.get("OTTLA_SEEDS", "240"))
STEPS = 400
BLOCKS = 4


@pytest.mark.skipif("OTTLA_SEED" in os.environ, reason="one seed was asked for")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_one_owner_a_partition_and_all_converge_in_every_history(block: int) -> None:
    counts = counts_of(World, range(block, SEEDS, BLOCKS), STEPS)
    seeds = SEEDS // BLOCKS
    if seeds < 50:
        return
    # A simulation in which little happens proves little.
    assert counts["taken"] > 5 * seeds
    assert counts["revoked"] > 2 * seeds
    assert counts["lost"] > seeds // 2
    assert counts["restarts"] > seeds // 2
    assert counts["fenced"] > 0
    for error in ("REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"):
        assert counts[f"HeartbeatResponse {error}"] > 0
    assert counts["JoinGroupResponse MEMBER_ID_REQUIRED"] > seeds


@pytest.mark.skipif("OTTLA_SEED" not in os.environ, reason="set OTTLA_SEED to replay one history")
def test_replay_of_one_history() -> None:
    counts_of(World, [int(os.environ["OTTLA_SEED"])], STEPS)

"""Seeded histories of members of consumer groups and a coordinator; see `consumer_simulation`.

OTTLA_SEED=n begins with history n; OTTLA_SOAK=1 runs many more.
"""

from __future__ import annotations

import pytest

from tests.consumer.coordinated.consumer_simulation import ConsumerWorld
from tests.histories import counts_of
from tests.scale import SEED, SOAK, sized

SEEDS = sized(60, 20_000)
STEPS = 400
BLOCKS = 2


@pytest.mark.parametrize("block", range(BLOCKS))
def test_one_owner_a_partition_and_all_converge_in_every_history(block: int) -> None:
    counts = counts_of(ConsumerWorld, range(SEED + block, SEED + SEEDS, BLOCKS), STEPS)
    seeds = SEEDS // BLOCKS
    # A simulation in which little happens proves little.
    assert counts["taken"] > 5 * seeds
    assert counts["revoked"] > 2 * seeds
    assert counts["lost"] > seeds // 2
    assert counts["restarts"] > seeds // 2
    if SOAK or not SEED:  # a few histories of any seed may lack what is rare
        for error in ("UNKNOWN_MEMBER_ID", "UNRELEASED_INSTANCE_ID"):
            assert counts[f"ConsumerGroupHeartbeatResponse {error}"] > 0
        assert counts["HeartbeatResponse REBALANCE_IN_PROGRESS"] > 0
        assert counts["consumer"] > 0
        assert counts["classic"] > 0
        assert counts["instance in two protocols"] > 0
        assert counts["range"] > 0
        assert counts["replicas moved"] > 0


@pytest.mark.parametrize("seed", [4915])
def test_histories_that_once_had_two_owners_of_a_partition(seed: int) -> None:
    """4915: a member told what it owned, and took the rest of an assignment before the answer withdrew it."""
    ConsumerWorld(seed).run(STEPS)


@pytest.mark.parametrize("seed", [309934])
def test_histories_that_once_left_partitions_without_an_owner(seed: int) -> None:
    """309934: a member left, the group became classic, and its coordinator restarted before others joined."""
    ConsumerWorld(seed).run(STEPS)

"""Groups settle in the growth study, cost what they cost, and do not cost more than in proportion."""

from __future__ import annotations

import pytest

from tests.consumer.growth.study import KINDS, study
from tests.scale import SEED, sized

SMALL, LARGE = sized((5, 15), (100, 400))
LINEAR_KINDS = [kind for kind in KINDS if not kind.startswith("classic")]
LATENCY_MS = 10.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_always_gives_the_same_costs(kind: str) -> None:
    assert study(kind, SMALL, LATENCY_MS, SEED) == study(kind, SMALL, LATENCY_MS, SEED)


@pytest.mark.parametrize("kind", LINEAR_KINDS)
def test_requests_and_bytes_grow_with_the_group(kind: str) -> None:
    """A quarter above proportion is left for one member more or less, and for ids that get longer.

    Bytes of a start are not compared where the broker assigns: who comes early is given much, and lists it.
    """
    small, large = (study(kind, members, LATENCY_MS, SEED) for members in (SMALL, LARGE))
    for event, cost in large.items():
        assert cost.operations <= 1.25 * small[event].operations * LARGE / SMALL, event
        if event != "start" or not kind.startswith("consumer"):
            assert cost.bytes <= 1.25 * small[event].bytes * LARGE / SMALL, event


def test_a_member_more_or_less_of_a_classic_group_costs_operations_in_proportion() -> None:
    """The start does not: every member reads every other one's registration, as the protocol demands."""
    small, large = (study("classic (ZooKeeper)", members, LATENCY_MS, SEED) for members in (SMALL, LARGE))
    for event in ("one joins", "one leaves", "a minute of rest"):
        assert large[event].operations <= 1.25 * small[event].operations * LARGE / SMALL, event


@pytest.mark.parametrize("kind", ["range", "cooperative-sticky"])
def test_a_generation_takes_one_join_and_one_sync_of_each_member(kind: str) -> None:
    """And the members that start have no id yet, so that they join twice. A leader must not begin another."""
    assert study(kind, SMALL, LATENCY_MS, SEED)["start"].operations == 3 * SMALL

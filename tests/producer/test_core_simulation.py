"""The core among failing brokers, many seeds: nothing lost in silence, nothing twice, order kept."""

from __future__ import annotations

import pytest

from ottla.model.errors import DeliveryExpired
from tests.producer.simulated_cluster import Simulation
from tests.scale import sized

SEEDS = range(sized(15, 1000))
STEPS = 1_500


def run(seed: int, **options: object) -> Simulation:
    print(f"seed {seed}")  # noqa: T201 - to run it again
    simulation = Simulation(seed, **options)  # type: ignore[arg-type]
    for _ in range(STEPS):
        simulation.step()
    simulation.settle()
    assert sorted(simulation.told) == list(range(simulation.sent)), "every record is told of once"
    return simulation


def check_stored(simulation: Simulation) -> None:
    """What was called stored is where it was said to be."""
    for value, fate in simulation.told.items():
        assert fate.partition == simulation.places[value]
        if fate.error is None:
            assert simulation.partitions[fate.partition].records[fate.offset] == value


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("partitions", [1, 5])
def test_an_idempotent_producer_stores_once_and_in_order(seed: int, partitions: int) -> None:
    simulation = run(seed, is_idempotent=True, partitions=partitions, faults=0.08)
    check_stored(simulation)
    for partition in simulation.partitions:
        assert partition.records == sorted(set(partition.records)), "ascending, none twice"
    for value, fate in simulation.told.items():
        stored = value in set(simulation.partitions[fate.partition].records)
        if isinstance(fate.error, DeliveryExpired) and "they are not stored" in str(fate.error):
            assert not stored


@pytest.mark.parametrize("seed", SEEDS)
def test_without_idempotence_records_may_come_twice_but_never_out_of_order(seed: int) -> None:
    simulation = run(seed, is_idempotent=False, partitions=3, faults=0.08)
    check_stored(simulation)
    for partition in simulation.partitions:
        first_seen = list(dict.fromkeys(partition.records))
        assert first_seen == sorted(first_seen)


@pytest.mark.parametrize("seed", range(sized(6, 100)))
@pytest.mark.parametrize("is_idempotent", [True, False])
def test_without_faults_everything_is_stored(seed: int, is_idempotent: bool) -> None:
    simulation = run(seed, is_idempotent=is_idempotent, partitions=4, faults=0.0, delivery_timeout_ms=1e9)
    assert all(fate.error is None for fate in simulation.told.values())
    stored = sum(len(partition.records) for partition in simulation.partitions)
    assert stored == simulation.sent > 100
    check_stored(simulation)

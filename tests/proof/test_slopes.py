"""What grows is found in samples, and a short run has all of them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.proof.slopes import FILL_S, LIMITS, LOAD, Series, measure, slope, steady
from tests.scale import sized

SECONDS = sized(2.0, 600.0)


def sampled(kind: str, *, usual: float, growth: float, noise: float) -> Series:
    series, chance = Series(f"broker {kind}"), Random(kind)
    for number in range(30):
        series.add(number, usual + growth * number / 21 + chance.uniform(-noise, noise))
    return series


def test_the_slope_of_a_line_with_a_few_wild_points() -> None:
    at = [float(number) for number in range(20)]
    values = [3 * x + 1 for x in at]
    values[4], values[11] = 1_000.0, -1_000.0
    assert slope(at, values) == pytest.approx(3, abs=0.01)


@pytest.mark.parametrize("kind", LIMITS)
def test_what_grows_is_found_and_what_is_noisy_is_not(kind: str) -> None:
    usual = 100.0
    limit = LIMITS[kind].plus + LIMITS[kind].part * usual
    assert sampled(kind, usual=usual, growth=0, noise=limit / 2).verdict().is_flat
    leaking = sampled(kind, usual=usual, growth=3 * limit, noise=limit / 2).verdict()
    assert not leaking.is_flat
    assert str(leaking).endswith("over the run: GROWS")


def test_growth_in_the_warm_up_does_not_count() -> None:
    series = Series("broker memory")
    for number in range(30):
        series.add(number, min(number, 8) * 100.0)
    assert series.verdict().is_flat


@pytest.mark.timeout(sized(300, 3_600))
def test_a_run_samples_every_process(tmp_path: Path) -> None:
    series, done = measure(SECONDS, tmp_path, per_s=500, fill_s=FILL_S if SECONDS > FILL_S else 0)
    assert {one.name for one in series} == {
        *(f"{name} {kind}" for name in ("broker", "writers", "readers") for kind in list(LIMITS)[:3]),
        "produce p99",
        LOAD,
    }
    assert all(len(one.values) > 2 for one in series if one.kind != "p99"), "a short run times few records"
    assert "rebalances" in done
    if SECONDS > FILL_S:
        is_steady = steady(next(one.values for one in series if one.name == LOAD))
        verdicts = [one.verdict(is_steady=is_steady) for one in series if one.name != LOAD]
        assert [str(verdict) for verdict in verdicts if not verdict.is_flat] == []


def test_on_a_machine_that_gets_busier_only_what_it_cannot_change_is_judged() -> None:
    assert steady([3.0, 6.0, 2.0])
    assert not steady([3.0, 7.0, 2.0])
    for name, is_judged in (("produce p99", False), ("readers memory", False), ("broker memory", True)):
        series = Series(name)
        for number in range(30):
            series.add(number, number * 100.0)
        assert series.verdict(is_steady=False).is_flat is not is_judged

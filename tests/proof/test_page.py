"""docs/reliability.md is made from the results beside it."""

from __future__ import annotations

from random import Random

from tests.proof import page
from tests.proof.__main__ import run_part
from tests.proof.parts import PARTS, TARGETS, Part


def test_the_page_shows_the_stored_runs() -> None:
    assert page.PAGE.read_text() == page.page(page.stored_runs())


def test_the_parts_have_names_of_their_own_and_count_what_is_aimed_at() -> None:
    assert len({part.name for part in PARTS}) == len(PARTS)
    assert TARGETS.keys() <= {name for part in PARTS for name in part.counts}


def test_a_part_runs_with_a_seed_and_a_failure_is_kept() -> None:
    passing = Part("passing", "", ("-c", "print({seed})"), {"things": 3})
    result = run_part(passing, 0, Random(1))
    assert (result.rounds, result.counts, result.failed) == (1, {"things": 3}, "")
    failing = Part("failing", "", ("-c", "raise SystemExit('found {seed}')"), {"things": 3})
    result = run_part(failing, 60, Random(1))
    assert (result.rounds, result.counts) == (0, {})
    assert result.said.startswith(f"found {result.seeds[0]}")
    assert str(result.seeds[0]) in result.failed

"""docs/reliability.md is made from the results beside it."""

from __future__ import annotations

from argparse import Namespace
from random import Random

from tests.proof import page
from tests.proof.__main__ import Result, oldest_first, run_all, run_part
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


def test_a_part_whose_tests_are_all_skipped_counts_nothing() -> None:
    code = "import os; print('s' * 3); print(os.environ['TOLD'], 'in 0.12s')"

    def told(text: str) -> tuple[bool, dict[str, int]]:
        result = run_part(Part("", "", ("-c", code), {"things": 3}, environment={"TOLD": text}), 0, Random(1))
        assert not result.failed
        return result.skipped, result.counts

    assert told("3 skipped") == (True, {})
    assert told("2 passed, 1 skipped") == (False, {"things": 3})


def test_parts_that_were_not_run_for_long_come_first() -> None:
    parts = [Part(name, "", ()) for name in ("new", "old", "never")]
    runs = [{"parts": [{"part": "old"}, {"part": "new"}]}, {"parts": [{"part": "new"}]}]
    assert [part.name for part in oldest_first(parts, runs)] == ["never", "old", "new"]


def test_some_parts_run_at_once_and_none_begins_too_late() -> None:
    parts = [Part(name, "", ("-c", "")) for name in ("a", "b", "c")]
    results: list[Result] = []
    run_all(parts, Namespace(hours=1e-9, jobs=1, seed=1), results)
    assert [result.part for result in results] == ["a"]
    run_all(parts[1:], Namespace(hours=1e-3, jobs=2, seed=1), results)
    assert {result.part for result in results} == {"a", "b", "c"}

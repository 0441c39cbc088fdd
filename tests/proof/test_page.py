"""docs/reliability.md is made from the results beside it."""

from __future__ import annotations

import threading
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest

from tests.proof import page
from tests.proof.__main__ import oldest_first, run_again, run_all
from tests.proof.failures import failures
from tests.proof.parts import PARTS, TARGETS, Part
from tests.proof.rounds import Result, run_part


def test_the_page_shows_the_stored_runs() -> None:
    assert page.PAGE.read_text() == page.page(page.stored_runs())


def test_every_part_was_run() -> None:
    """A part that is added is run before it is committed: `python -m tests.proof --only PART`."""
    assert "not run yet" not in page.PAGE.read_text()


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


def test_rounds_grow_to_what_the_rest_of_the_time_allows() -> None:
    code = "import os, sys; assert sys.argv[1] == os.environ['OTTLA_KILLS'], sys.argv"
    sized = {"OTTLA_KILLS": "{size*3}"}
    part = Part("growing", "", ("-c", code, "{size*3}"), {"kills": 3}, environment=sized, size_max=1000)
    result = run_part(part, 1, Random(1))
    assert not result.failed, result.said
    assert result.counts["kills"] > 3 * result.rounds


def test_an_interruption_keeps_the_rounds_that_have_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    is_interrupted, answers = threading.Event(), iter([False, True])
    monkeypatch.setattr(is_interrupted, "is_set", lambda: next(answers))
    result = run_part(Part("", "", ("-c", ""), {"things": 3}), 60, Random(1), is_interrupted)
    assert (result.rounds, result.counts, len(result.seeds)) == (1, {"things": 3}, 1)


def test_a_failure_is_shown_until_its_very_command_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cure = tmp_path / "cure"
    failing = Part("failing", "", ("-c", f"import os; raise SystemExit(not os.path.exists('{cure}'))"))
    runs = [{"date": "then", "commit": "a", "parts": [asdict(run_part(failing, 0, Random(1)))]}]
    monkeypatch.setattr(page, "stored_runs", lambda: runs)
    for commit, passed in (("b", ""), ("c", "c")):
        (failure,) = failures(runs)
        assert not failure.passed
        results: list[Result] = []
        run_again([], "worn out", results)
        runs.append({"date": "now", "commit": commit, "parts": [asdict(results[0])]})
        (failure,) = failures(runs)
        assert (failure.commit, failure.passed, failure.cause) == ("a", passed, "worn out")
        cure.touch()
    results = []
    run_again([], "", results)
    assert results == []


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

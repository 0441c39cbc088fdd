"""CPU time of a tree of processes: what is missing is noticed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.cpu_time import ProcessTime, complete_round, process_cpu_seconds, spent, tree_of

BURN = "import time\nwhile time.process_time() < 0.3: pass"


def test_the_time_of_a_child_that_ended_is_counted() -> None:
    before = tree_of(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], check=True)
    seconds = spent(before, tree_of(os.getpid()))
    assert seconds is not None
    assert seconds >= 0.25


def test_a_worker_whose_time_nobody_collected_makes_the_round_void() -> None:
    """It had 900 ticks before the round, and has ended; its parent has not waited for it."""
    before = {1: ProcessTime(50, 0), 2: ProcessTime(900, 0)}
    assert spent(before, {1: ProcessTime(60, 0)}) is None


def test_a_worker_that_ended_during_the_round_is_in_its_parent() -> None:
    before = {1: ProcessTime(50, 0), 2: ProcessTime(900, 0)}
    after = {1: ProcessTime(60, 1000), 3: ProcessTime(5, 0)}
    assert spent(before, after) == 115 / os.sysconf("SC_CLK_TCK")


def test_a_void_round_is_repeated_and_not_for_ever() -> None:
    answers = iter([None, None, 7])
    assert complete_round(lambda: next(answers)) == 7
    with pytest.raises(RuntimeError, match="was lost in 5 rounds"):
        complete_round(lambda: None)


def test_a_process_is_counted_without_its_children() -> None:
    before = process_cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert process_cpu_seconds(os.getpid()) - before < 0.25

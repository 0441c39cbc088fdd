"""`make test` runs a few failed tests once more, alone, and says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "run_suite.py"
UNSTABLE = """
from pathlib import Path

def test_second_time_lucky():
    mark = Path(__file__).with_suffix(".mark")
    was_there = mark.exists()
    mark.touch()
    assert was_there
"""
BROKEN = "def test_broken():\n    assert False\n"


@pytest.mark.parametrize(
    ("source", "code", "is_unstable"),
    [(UNSTABLE, 0, True), (BROKEN, 1, False), (UNSTABLE + BROKEN, 1, False)],
    ids=["unstable", "broken", "both"],
)
def test_a_failed_test_is_run_once_more(tmp_path: Path, source: str, code: int, is_unstable: bool) -> None:
    (tmp_path / "test_some.py").write_text(source)
    command = [sys.executable, str(TOOL), "-p", "no:ottla", "-p", "no:randomly"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout
    assert "Once more, alone" in done.stdout
    assert ("UNSTABLE" in done.stdout) == is_unstable

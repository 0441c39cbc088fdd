"""Python processes that Spark starts on one machine are forked by a server, or started if there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.session import is_python_ours_to_set, worker_python

PRELOADED = "ottla.spark.readers"
PROGRAM = f"""
import json, os, signal, sys
told = {{
    "arguments": sys.argv[1:],
    "directory": os.getcwd(),
    "word": os.environ["WORD"],
    "path": os.environ["PYTHONPATH"],
    "name": __name__,
    "is_forked": "{PRELOADED}" in sys.modules,
    "input": sys.stdin.readline(),
}}
print(json.dumps(told), flush=True)
if "wait" in sys.argv:
    signal.pause()
if "fail" in sys.argv:
    raise ValueError(told["input"])
sys.exit(told["input"].strip() if "text" in sys.argv else 3)
"""
DRIVER = """
import os, signal, subprocess
from ottla.spark.session import worker_python
process = subprocess.Popen([worker_python(is_forked=True), "-m", "json.tool"], stdin=subprocess.PIPE)
process.communicate(b"{}")
print(process.returncode, flush=True)
signal.pause()
"""


@pytest.fixture(scope="module", params=[True, False], ids=["forked", "started"])
def python(request: pytest.FixtureRequest) -> tuple[str, bool]:
    """What Spark takes for Python, and whether a server forks."""
    return worker_python(is_forked=request.param), request.param


def start(python: str, directory: Path, *arguments: str) -> subprocess.Popen[str]:
    (directory / "told.py").write_text(PROGRAM)
    path = os.pathsep.join([str(directory / "pyspark.zip"), str(directory)])
    return subprocess.Popen(
        [python, "-m", "told", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path, "WORD": "spark"},
    )


def test_a_process_has_what_it_was_started_with(python: tuple[str, bool], tmp_path: Path) -> None:
    script, is_forked = python
    process = start(script, tmp_path, "one", "two words")
    output, errors = process.communicate("line\n", timeout=60)
    told: dict[str, Any] = json.loads(output)
    assert told == {
        "arguments": ["one", "two words"],
        "directory": str(tmp_path),
        "word": "spark",
        "path": str(tmp_path),  # without pyspark.zip
        "name": "__main__",
        "is_forked": is_forked,
        "input": "line\n",
    }
    assert (errors, process.returncode) == ("", 3)


def test_what_a_process_says_at_its_end_is_heard(python: tuple[str, bool], tmp_path: Path) -> None:
    process = start(python[0], tmp_path, "text")
    _, errors = process.communicate("too bad\n", timeout=60)
    assert (errors, process.returncode) == ("too bad\n", 1)
    process = start(python[0], tmp_path, "fail")
    _, errors = process.communicate("too bad\n", timeout=60)
    assert "ValueError: too bad" in errors
    assert process.returncode == 1


def test_a_process_that_is_told_to_end_ends(python: tuple[str, bool], tmp_path: Path) -> None:
    with start(python[0], tmp_path, "wait") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("line\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.terminate()
        assert process.stdout.read() == ""  # nobody has it any more
        assert process.wait(60) != 0


def test_the_server_ends_with_a_driver_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert [driver.stdout.readline().strip() for _ in range(2)] == ["{}", "0"]
        driver.kill()
        assert driver.stdout.read() == ""  # the server had it, too


def test_a_session_leaves_the_python_of_its_user_and_not_that_of_a_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server of a parent would fork for both: what a parent's end leaves is slow."""
    program = "from ottla.spark.session import worker_python; print(worker_python())"
    parents = subprocess.check_output([sys.executable, "-c", program], text=True).strip()
    for python, is_replaced in ((parents, True), (worker_python(), False), (sys.executable, False)):
        monkeypatch.setenv("PYSPARK_PYTHON", python)
        assert is_python_ours_to_set() is is_replaced, python
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert is_python_ours_to_set()

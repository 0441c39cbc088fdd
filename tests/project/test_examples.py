"""Every example runs by itself and prints what its docstring says."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_servers import require_zookeeper

pytestmark = pytest.mark.each_alone

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[a-z]*.py"))
IN_A_SESSION = {"spark_read"}
"""`spark/test_pages` runs them in the session that its tests share."""


def promised_lines(example: Path) -> list[str]:
    doc = ast.get_docstring(ast.parse(example.read_text())) or ""
    return [line.strip() for line in doc.partition("Prints:\n")[2].splitlines() if line.strip()]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "example", [path for path in EXAMPLES if path.stem not in IN_A_SESSION], ids=lambda path: path.stem
)
def test_example_prints_what_it_promises(example: Path) -> None:
    if example.stem == "classic_group":
        require_zookeeper()
    run = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=290,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    promised = promised_lines(example)
    assert promised
    if example.stem == "pytest_fixture":
        assert promised[0] in run.stdout
    else:
        assert run.stdout.splitlines() == promised


def test_there_are_enough_of_them() -> None:
    assert len(EXAMPLES) >= 8

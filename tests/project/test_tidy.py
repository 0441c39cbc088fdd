"""Rules about the source itself that no linter has: sizes, names, mistakes seen elsewhere in the field."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
HOMELESS_NAMES = {"utils", "helpers", "common", "manager", "misc", "base"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without the signature: kernels' arguments stand a line each."""
    return (function.end_lineno or 0) - function.body[0].lineno + 1


def is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "kernel" for mark in function.decorator_list)


def test_modules_are_one_idea_of_bearable_length() -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: lines for name, lines in lengths.items() if lines > MODULE_LINES_MAX} == {}


def test_functions_are_short_unless_they_are_kernels() -> None:
    lengths = {
        f"{relative(path)}:{function.lineno} {function.name}": body_lines(function)
        for path in SOURCES
        for function in functions(path)
        if not is_kernel(function)
    }
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX} == {}


def test_files_are_named_by_nouns_of_the_domain() -> None:
    assert [relative(path) for path in SOURCES if path.stem in HOMELESS_NAMES] == []


def test_modules_say_what_they_own() -> None:
    assert [relative(path) for path in SOURCES if not ast.get_docstring(parsed(path))] == []


def test_raised_errors_have_their_text_put_together() -> None:
    """`raise E("… %s", x)` is a logging habit that leaves the placeholder in the message."""
    assert [
        f"{relative(path)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and has_placeholder(node.exc)
    ] == []


def has_placeholder(call: ast.Call) -> bool:
    texts = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    return any(isinstance(text, str) and re.search(r"%[sdr]", text) for text in texts)


def test_what_tests_share_is_in_no_test_file() -> None:
    from_test_file = re.compile(r"^from tests\.(?:\w+\.)*test_\w+ import", re.MULTILINE)
    sources = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    assert [relative(path) for path, text in sources.items() if from_test_file.search(text)] == []


def test_only_the_project_decorators_call_numba() -> None:
    """So that flags, cache and the plain-Python run are the same for every kernel."""
    users = [relative(path) for path in SOURCES if re.search(r"\b(njit|numba\.jit)\b", path.read_text())]
    assert users == ["src/ottla/kernels/kernel.py"]


def test_layers_are_kept() -> None:
    run = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout


def test_every_package_of_the_source_is_in_the_layer_contract() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "ottla").glob("*/__init__.py")}
    contract = (ROOT / "pyproject.toml").read_text()
    assert [name for name in sorted(packages) if f"ottla.{name}" not in contract] == []


def test_no_file_names_a_package_index_or_this_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: no list of the project's files")
    index = re.compile(r"https?://[^\s\"]*/(simple|registry|maven2|packages)/")
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.suffix in {".py", ".toml", ".txt", ".md", ".sh", ""} and path.is_file():
            text = path.read_text(errors="replace")
            assert not index.search(text), name
            assert str(ROOT) not in text, name

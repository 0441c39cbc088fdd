"""Rules about the source itself that no linter has: sizes, names, mistakes seen elsewhere in the field."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
HOMELESS_NAMES = {"utils", "helpers", "common", "manager", "misc", "base"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without the signature: kernels' arguments stand a line each."""
    return (function.end_lineno or 0) - function.body[0].lineno + 1


def is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "kernel" for mark in function.decorator_list)


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_module_is_one_idea_of_bearable_length(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MODULE_LINES_MAX


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_functions_are_short_unless_they_are_kernels(path: Path) -> None:
    lengths = {function.name: body_lines(function) for function in functions(path) if not is_kernel(function)}
    long = {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX}
    assert not long


def test_files_are_named_by_nouns_of_the_domain() -> None:
    assert [relative(path) for path in SOURCES if path.stem in HOMELESS_NAMES] == []


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_module_says_what_it_owns(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_raised_errors_have_their_text_put_together(path: Path) -> None:
    """`raise E("… %s", x)` is a logging habit that leaves the placeholder in the message."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            texts = [arg.value for arg in node.exc.args if isinstance(arg, ast.Constant)]
            assert not any(isinstance(text, str) and re.search(r"%[sdr]", text) for text in texts)


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

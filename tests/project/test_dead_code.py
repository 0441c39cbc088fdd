"""Nothing at the top level of a module is there for nobody."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
# Called by name from outside: entry points, and what pages and examples show.
READERS = [ROOT / "pyproject.toml", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]


def test_every_function_and_class_is_used_by_the_product() -> None:
    words: Counter[str] = Counter()
    for path in (*SOURCES, *READERS):
        words.update(re.findall(r"\w+", path.read_text()))
    unused = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in SOURCES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if words[node.name] == 1 and not node.name.startswith(("pytest_", "__"))
    ]
    assert unused == []

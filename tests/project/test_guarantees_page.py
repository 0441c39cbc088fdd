"""docs/guarantees.md names a test for each guarantee, and these tests exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
NAMES = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
SINKS = ("topic", "parquet", "Delta", "landing", "SQLite", "rows of a DataFrame")


@pytest.mark.parametrize(("file", "name"), NAMES)
def test_the_test_exists(file: str, name: str) -> None:
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.M), f"{file} has no {name}"


def test_every_row_has_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")][1:]
    assert [row for row in rows if "`tests/" not in row] == []
    assert [sink for sink in SINKS if not any(sink in row for row in rows)] == []

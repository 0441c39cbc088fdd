"""What all tests here share: compiled kernels before any clock runs, and no thread left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ottla.records.builder import encode
from tests.interop.rows import our_rows, sample, table


@pytest.fixture(scope="session", autouse=True)
def _compiled_kernels() -> None:
    """The first use compiles for seconds, on a busy machine for longer than a client would wait."""
    for magic in (0, 1, 2):
        our_rows(b"".join(encode(table(sample(magic)), magic=magic)))


@pytest.fixture(autouse=True)
def _no_thread_survives() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert left == []

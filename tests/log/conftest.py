"""Fixtures of the log's tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from ottla.log.open_files import SEALED
from tests.scale import seeded


@pytest.fixture
def random(request: pytest.FixtureRequest) -> Random:
    """Random numbers of the test's own, from the run's seed."""
    return seeded(request.node.name)


@pytest.fixture(autouse=True)
def _descriptors_of_the_dead(tmp_path: Path) -> Iterator[None]:
    """A log whose process is killed in a test leaves its files open, as no process does: close them.

    A thousand of them, and `select` fails in whatever test comes next.
    """
    yield
    SEALED._open.clear()
    if _has_open_files(tmp_path):
        gc.collect()  # what is garbage closes itself


def _has_open_files(place: Path) -> bool:
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []:
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith(f"{place}{os.sep}"):
                return True
    return False

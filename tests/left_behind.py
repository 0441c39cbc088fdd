"""A guard against test modules that leave files, sockets or processes behind."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.scale import sized
from tests.waiting import wait_for

LEFT_MAX = sized(60, 120)
"""What all modules share is opened by the first that needs it: real servers, Spark, caches. Nightly there are
more of them: a module may start Spark and four stores.
"""
_DESCRIPTORS = Path("/proc/self/fd")
_SHARED_PROCESSES = (
    "process_guard.py",
    "ToolRunner",
    "org.apache.spark",
    "ottla.spark.fork_server",
    "resource_tracker",
    "forkserver",
)
"""Real servers behind their guards, Kafka's tools, Spark: they end with the run."""


@pytest.fixture(scope="module", autouse=True)
def no_descriptor_is_left() -> Iterator[None]:
    """Fail the last test of a module after which many more descriptors are open than before it.

    Per module, because a broker that a module's tests share keeps the files of their topics open.
    """
    before = _count()
    yield
    if _count() - before <= LEFT_MAX:
        return
    gc.collect()  # garbage closes itself
    left = _count() - before
    assert left <= LEFT_MAX, f"{left} descriptors are open that were not before: {_kinds().most_common(5)}"


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Fail the last test of a module after which a process still runs that was not there before it."""
    before = set(_children())
    yield
    wait_for(
        lambda: not set(_children()) - before,
        lambda: f"the end of processes that tests started: {_children()}",
        timeout=30,
    )


def _children() -> dict[int, str]:
    """Return the command lines of this process's children that run, by process id."""
    running = {}
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for pid in map(int, children.read_text().split()):
                command = (
                    Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                if command and not any(name in command for name in _SHARED_PROCESSES):  # a zombie has none
                    running[pid] = command[:200]
    return running


def _count() -> int:
    return len(os.listdir(_DESCRIPTORS)) if _DESCRIPTORS.is_dir() else 0


def _kinds() -> Counter[str]:
    kinds: Counter[str] = Counter()
    for descriptor in _DESCRIPTORS.iterdir():
        with suppress(OSError):
            kinds[os.readlink(descriptor).partition(":[")[0]] += 1
    return kinds

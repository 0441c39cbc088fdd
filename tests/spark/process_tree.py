"""The processes that a process has started (Linux)."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """Of all its threads; none if it has ended."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def below(root: int) -> dict[int, str]:
    """All below it with their command lines."""
    found: dict[int, str] = {}
    for pid in children(root):
        with suppress(OSError):
            found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        found |= below(pid)
    return found


def name_of(pid: int) -> str:
    """The name that it has given itself; "" if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def kill(pid: int) -> None:
    """At once; it may have ended already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_with_all_below(pid: int) -> None:
    """It and what it has started."""
    tree = [pid, *below(pid)]
    for one in tree:
        kill(one)

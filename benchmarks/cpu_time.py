"""CPU time of other processes, as the kernel counts it.

A process that has ended is counted by its parent, once that has waited for it. In between, and if nobody
waits, its time is in no process: `spent` finds that out, and such a round is thrown away.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
TICK_S = 1 / _TICKS_PER_S
"""The least CPU time that the kernel counts: what took less may show as nothing."""
ROUNDS_LOST_MAX = 5
T = TypeVar("T")


class ProcessTime(NamedTuple):
    """Clock ticks of a process: its own, and those of the ended processes that it has waited for."""

    own: int
    ended: int


Tree = dict[int, ProcessTime]


def process_cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process so far."""
    return _stat(pid)[1].own / _TICKS_PER_S


def tree_of(root: int) -> Tree:
    """The times of a process and of all below it, by process id."""
    stats: dict[int, tuple[int, ProcessTime]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                stats[int(directory.name)] = _stat(int(directory.name))
            except OSError:
                continue  # it has ended
    below, new = {root}, {root}
    while new:
        new = {pid for pid, (parent, _) in stats.items() if parent in new} - below
        below |= new
    return {pid: stats[pid][1] for pid in below if pid in stats}


def spent(before: Tree, after: Tree) -> float | None:
    """CPU seconds between two looks at a tree; None if the time of a process that ended is missing."""
    gone = sum(sum(time) for pid, time in before.items() if pid not in after)
    collected = sum(time.ended - before[pid].ended for pid, time in after.items() if pid in before)
    collected += sum(time.ended for pid, time in after.items() if pid not in before)
    if collected < gone:
        return None
    total_before, total_after = (sum(map(sum, tree.values())) for tree in (before, after))
    return (total_after - total_before) / _TICKS_PER_S


def complete_round(run: Callable[[], T | None]) -> T:
    """Run until the round's accounting is complete. Raises RuntimeError after ROUNDS_LOST_MAX attempts."""
    for _ in range(ROUNDS_LOST_MAX):
        if (result := run()) is not None:
            return result
    raise RuntimeError(f"the CPU time of ended processes was lost in {ROUNDS_LOST_MAX} rounds")


def _stat(pid: int) -> tuple[int, ProcessTime]:
    """The parent, and the times."""
    # The second field is the program's name in parentheses and may hold spaces.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, ended_user, ended_system = map(int, fields[11:15])
    return int(fields[1]), ProcessTime(user + system, ended_user + ended_system)


def resident_mb(pid: int) -> float:
    """The memory that a process has now. Raises RuntimeError or OSError if it has ended."""
    return _status_mb(pid, "VmRSS")


def peak_resident_mb(pid: int) -> float:
    """The most memory that a process ever had. Raises RuntimeError or OSError if it has ended."""
    return _status_mb(pid, "VmHWM")


def _status_mb(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) / 1024
    raise RuntimeError(f"process {pid} has no {field}")

"""The faults of a simulation and their times, drawn from a seed before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Kind(StrEnum):
    """The kinds of faults."""

    KILL = "kill"  # a process of the application ends
    FREEZE = "freeze"  # the same process runs nothing for a while
    BROKER_KILL = "broker kill"
    POWER_LOSS = "power loss"  # of the broker's machine: unflushed data may be lost
    CUT = "cut"  # a connection breaks
    STALL = "stall"  # the bytes from and to a process are held back for a while
    LEADER_MOVE = "leader move"  # another broker leads a partition
    DISK_FULL = "disk full"  # the disk of the broker, for a while
    CLOCK_JUMP = "clock jump"  # the wall clock of a process is set wrong


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: its time, kind and duration. `choice` picks the process, connection or partition.

    A clock that jumps is wrong by a minute for each second of `duration_s`, and stays so.
    """

    at_s: float
    kind: str
    duration_s: float
    choice: float

    def __post_init__(self) -> None:
        Kind(self.kind)  # raises ValueError

    def __repr__(self) -> str:
        kind = str(self.kind)
        return f"Fault({self.at_s!r}, {kind!r}, {self.duration_s!r}, {self.choice!r})"


@dataclass(frozen=True, slots=True)
class Faults:
    """One fault in `every_s` seconds on average, of these kinds, during the first `for_s` seconds.

    By default there are no power losses, since a broker whose `ottla.flush` is not `always` may lose records
    by them, and no moves of leaders, full disks and clock jumps: name them if your code should survive them.
    """

    every_s: float = 20.0
    for_s: float = 300.0
    kinds: Sequence[str] = (Kind.KILL, Kind.FREEZE, Kind.BROKER_KILL, Kind.CUT, Kind.STALL)
    duration_s: float = 10.0

    def drawn(self, seed: object) -> list[Fault]:
        """Return the faults of a seed, in the order of time."""
        chance = Random(f"{seed} faults")
        kinds = [Kind(kind) for kind in self.kinds]
        drawn: list[Fault] = []
        at_s = chance.expovariate(1 / self.every_s)
        while at_s < self.for_s and kinds:
            duration_s = round(chance.expovariate(1 / self.duration_s), 3)
            drawn.append(Fault(round(at_s, 3), chance.choice(kinds), duration_s, round(chance.random(), 4)))
            at_s += chance.expovariate(1 / self.every_s)
        return drawn

"""The loop: makes inputs, feeds them, bounds their time and memory, counts what came of them.

A target fails by raising anything, by taking more than `seconds_max` of CPU for one input, by allocating
more than it states (`Target.bytes_max`, measured on a sample), or if the process keeps growing.
"""

from __future__ import annotations

import faulthandler
import gc
import mmap
import os
import struct
import sys
import tempfile
import time
import tracemalloc
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

from tests.fuzz.mutations import Chance

SECONDS_MAX = 1.0
HANG_SECONDS = 120
TRACED_ONE_IN = 1000
THOROUGH_ONE_IN = 8
GROWTH_BYTES_MAX = 256 << 20
FAILURES_MAX = 5
JOURNAL_BYTES = 1 << 20


class Target(Protocol):
    """Something that takes hostile bytes."""

    name: str
    weight: int

    def make(self, chance: Random) -> bytes:
        """An input that says everything."""

    def run(self, data: bytes, *, thorough: bool) -> str:
        """Feed it; a word for what came of it. Raises if something does not hold."""

    def warm_up(self) -> None:
        """Compile and load what the first inputs would pay for."""

    def measured(self, data: bytes) -> None:
        """Feed it so that all memory it takes is counted."""

    def bytes_max(self, data: bytes) -> int:
        """How much memory an input may take."""


@dataclass
class Failure:
    """What went wrong with which input."""

    target: str
    data: bytes
    reason: str

    def __str__(self) -> str:
        replay = f"python -m tests.fuzz --only {self.target} --replay {self.data.hex()}"
        return f"FAILED {self.target}: {self.reason}\n  input: {self.data.hex()}\n  replay: {replay}"


@dataclass
class Report:
    """The result of a run."""

    seed: int
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    slowest: dict[str, float] = field(default_factory=dict)
    traced: dict[str, tuple[int, int]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    growth_bytes: int = 0

    @property
    def count(self) -> int:
        return sum(self.outcomes.values())

    def lines(self) -> Iterable[str]:
        yield f"seed {self.seed}: {_rate(self.count, sum(self.seconds.values()))}"
        for name, seconds in sorted(self.seconds.items()):
            counts = {
                word: count for (target, word), count in sorted(self.outcomes.items()) if target == name
            }
            words = ", ".join(f"{word} {count:,}" for word, count in counts.items())
            peak, allowed = self.traced.get(name, (0, 0))
            yield f"  {name}: {_rate(sum(counts.values()), seconds)}: {words}"
            yield (
                f"    slowest {1000 * self.slowest.get(name, 0):.0f} ms of CPU; largest of the traced ones"
                f" {peak / 1024:,.0f} KiB, allowed {allowed / 1024:,.0f} KiB"
            )
        yield f"  the process grew by {self.growth_bytes >> 20} MiB; {len(self.failures)} failures"


def _rate(count: int, seconds: float) -> str:
    return f"{count:,} inputs in {seconds:.1f} s, {count / max(seconds, 1e-9):,.0f}/s"


class Journal:
    """The input at hand, in a file: what is left of it if the process dies."""

    def __init__(self) -> None:
        self.path = Path(tempfile.gettempdir()) / f"ottla-fuzz-{os.getpid()}.input"
        with self.path.open("wb") as file:
            file.truncate(JOURNAL_BYTES)
        with self.path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), JOURNAL_BYTES)

    def note(self, target: str, data: bytes) -> None:
        record = struct.pack(">B10sI", 1, target.encode(), len(data)) + data
        self._memory[: min(len(record), JOURNAL_BYTES)] = record[:JOURNAL_BYTES]

    def close(self) -> None:
        self._memory.close()
        self.path.unlink()


def read_journal(path: Path) -> tuple[str, bytes]:
    """The target and the input that a dead process left."""
    content = path.read_bytes()
    _, name, size = struct.unpack_from(">B10sI", content)
    return name.rstrip(b"\0").decode(), content[15 : 15 + size]


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def attempt(target: Target, data: bytes, report: Report, *, thorough: bool, seconds_max: float) -> None:
    """Feed one input and note what came of it."""
    started = time.thread_time()
    try:
        word = target.run(data, thorough=thorough)
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        word = "failed"
        report.failures.append(Failure(target.name, data, f"{type(error).__name__}: {str(error)[:2000]}"))
    took = time.thread_time() - started
    report.outcomes[target.name, word] += 1
    report.slowest[target.name] = max(took, report.slowest.get(target.name, 0))
    if took > seconds_max:
        report.failures.append(Failure(target.name, data, f"took {took:.2f} s, more than {seconds_max}"))


def trace(target: Target, data: bytes, report: Report) -> None:
    """Feed one input again and measure its memory."""
    tracemalloc.start()
    try:
        target.measured(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    allowed = target.bytes_max(data)
    report.traced[target.name] = max((peak, allowed), report.traced.get(target.name, (0, 0)))
    if peak > allowed:
        report.failures.append(Failure(target.name, data, f"took {peak:,} bytes, more than {allowed:,}"))


def _keep_watch(number: int) -> None:
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True, file=sys.__stderr__ or sys.stderr)
    if number and number % 50_000 == 0:
        sys.stdout.write(f"  {number:,}\n")
        sys.stdout.flush()


def run(
    targets: Sequence[Target],
    count: int,
    seed: int,
    *,
    seconds_max: float = SECONDS_MAX,
    thorough_one_in: int = THOROUGH_ONE_IN,
    failures_max: int = FAILURES_MAX,
    alone: bool = False,
) -> Report:
    """Feed `count` inputs, spread over the targets by weight; stops after a few failures.

    `alone`: the process is ours, so say how far it is, and end it with a traceback if an input hangs.
    """
    report = Report(seed)
    chance = Chance(seed)
    deck = [target for target in targets for _ in range(target.weight)]
    for target in targets:
        target.warm_up()
    journal = Journal()
    gc.freeze()  # what inputs are made of stays: no need to look at it again and again
    if alone:
        sys.stdout.write(f"if the process dies: python -m tests.fuzz --journal {journal.path}\n")
    settled = 0
    try:
        for number in range(count):
            if alone and number % 1000 == 0:
                _keep_watch(number)
            if number == count // 5:
                settled = resident_bytes()
            target = chance.choice(deck)
            started = time.perf_counter()
            data = target.make(chance)
            journal.note(target.name, data)
            thorough = zlib.crc32(data) % thorough_one_in == 0
            attempt(target, data, report, thorough=thorough, seconds_max=seconds_max)
            if number % TRACED_ONE_IN == 0 and not report.failures:
                trace(target, data, report)
            report.seconds[target.name] += time.perf_counter() - started
            if len(report.failures) >= failures_max:
                break
    finally:
        if alone:
            faulthandler.cancel_dump_traceback_later()
        journal.close()
        gc.unfreeze()
    report.growth_bytes = max(0, resident_bytes() - settled) if settled else 0
    if report.growth_bytes > GROWTH_BYTES_MAX:
        report.failures.append(Failure("process", b"", f"grew by {report.growth_bytes:,} bytes"))
    return report

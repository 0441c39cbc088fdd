"""What is measured, how, and what it is held to.

A benchmark is a function from an `Effort` to `Case`s. A case is one question ("decode 100 B values") with one
answer of ours and one of each peer, in one unit. All contenders of a case take turns, round after round, so
that a machine that slows down slows them all, and the best round of each counts: noise only ever adds time.
Time is CPU time of the process, all threads; the benchmarks of servers say what theirs is. The garbage
collector is off while CPU time is taken, which is to the advantage of whoever makes many objects.

A ratio above 1 means that ours is better, whatever the unit.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from importlib import metadata

Measure = Callable[[], float]


class Better(Enum):
    """Which of two values wins."""

    MORE = "more"
    LESS = "less"


@dataclass(frozen=True)
class Effort:
    """How long to measure. Megabytes are of input per round, by how fast the contender is.

    The last three are of servers: their rounds, and megabytes or requests that pass through one per round.
    """

    rounds: int
    process_rounds: int
    fast_mb: int
    medium_mb: int
    slow_mb: int
    server_rounds: int
    server_mb: int
    server_requests: int


FULL = Effort(
    rounds=15,
    process_rounds=3,
    fast_mb=64,
    medium_mb=8,
    slow_mb=1,
    server_rounds=5,
    server_mb=128,
    server_requests=40_000,
)
QUICK = Effort(
    rounds=4,
    process_rounds=1,
    fast_mb=16,
    medium_mb=2,
    slow_mb=1,
    server_rounds=3,
    server_mb=24,
    server_requests=20_000,
)


@dataclass(frozen=True)
class Peer:
    """Someone to compare with: a way to measure it, or the reason why there is none."""

    name: str
    version: str = ""
    measure: Measure | None = None
    note: str = ""
    target: float | None = None


@dataclass(frozen=True)
class Case:
    """One question, put to ours and to the peers; warmed by a round that does not count, or not."""

    name: str
    unit: str
    ours: Measure
    peers: list[Peer]
    rounds: int
    better: Better = Better.MORE
    is_warmed: bool = True


@dataclass(frozen=True)
class Comparison:
    """How a peer did; `value` and `ratio` are None if it was not measured, and `note` says why."""

    name: str
    version: str
    value: float | None
    ratio: float | None
    target: float | None
    note: str = ""
    samples: list[float] = field(default_factory=list)

    @property
    def is_met(self) -> bool | None:
        """Whether the target is reached; None if there is none or nothing to compare with."""
        if self.target is None or self.ratio is None:
            return None
        return self.ratio >= self.target


@dataclass(frozen=True)
class Result:
    """The answer to a case."""

    name: str
    unit: str
    ours: float
    peers: list[Comparison] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    better: str = Better.MORE.value


Benchmark = Callable[[Effort], Iterable[Case]]
REGISTRY: dict[str, Benchmark] = {}


def benchmark(name: str) -> Callable[[Benchmark], Benchmark]:
    """Register a benchmark under a name for the command line."""

    def register(function: Benchmark) -> Benchmark:
        if name in REGISTRY:
            raise ValueError(f"two benchmarks are called {name!r}")
        REGISTRY[name] = function
        return function

    return register


def rate(work: Callable[[], object], units: float) -> Measure:
    """Units per CPU second of `work`, which does `units` units each time."""

    def measure() -> float:
        gc.collect()
        gc.disable()
        try:
            start = time.process_time()
            work()
            return units / max(time.process_time() - start, 1e-9)
        finally:
            gc.enable()

    return measure


def growth(name: str, costs: dict[int, list[float]], limit: float) -> Case:
    """By which power of the size a cost grows, from the last but one size to the last; `limit` is allowed.

    `costs` has the samples of every size when the case is measured.
    """

    def exponent() -> float:
        (fewer, less), (more, longer) = sorted((size, min(cost)) for size, cost in costs.items())[-2:]
        return max(math.log(max(longer, 1e-9) / max(less, 1e-9)) / math.log(more / fewer), 0.01)

    allowed = Peer("what it may be", measure=lambda: limit, target=1)
    return Case(
        f"growth of {name}", "power of the size", exponent, [allowed], 1, Better.LESS, is_warmed=False
    )


def noted(measure: Measure, samples: list[float]) -> Measure:
    """The same measurement, which also keeps its results in `samples`."""

    def measured() -> float:
        samples.append(measure())
        return samples[-1]

    return measured


@contextlib.contextmanager
def bytecode_kept() -> Iterator[None]:
    """Python processes keep what they compile, even where the environment says that they should not.

    So a package that was cloned starts like one that pip has installed.
    """
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as place:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = place
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def version_of(distribution: str) -> str | None:
    """The installed version of a peer, or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def run(case: Case) -> Result:
    """Measure all contenders of a case in turns, if it is to be warmed after a round that is not counted."""
    contenders: dict[int, Measure] = {-1: case.ours}
    contenders |= {index: peer.measure for index, peer in enumerate(case.peers) if peer.measure}
    for measure in contenders.values() if case.is_warmed else ():
        measure()  # compiles, fills caches, touches memory
    values: dict[int, list[float]] = {index: [] for index in contenders}
    for _ in range(case.rounds):
        for index, measure in contenders.items():
            values[index].append(measure())
    ours = _best(values[-1], case.better)
    peers = [
        _compare(peer, ours, values.get(index, []), case.better) for index, peer in enumerate(case.peers)
    ]
    return Result(case.name, case.unit, ours, peers, values[-1], case.better.value)


def run_all(names: Iterable[str], effort: Effort) -> Iterator[Result]:
    """The results of these benchmarks, as they come."""
    for name in names:
        for case in REGISTRY[name](effort):
            yield run(case)


def _best(values: list[float], better: Better) -> float:
    return max(values) if better is Better.MORE else min(values)


def _compare(peer: Peer, ours: float, samples: list[float], better: Better) -> Comparison:
    if not samples:
        return Comparison(peer.name, peer.version, None, None, peer.target, peer.note)
    value = _best(samples, better)
    above, below = (ours, value) if better is Better.MORE else (value, ours)
    ratio = above / max(below, 1e-12)
    return Comparison(peer.name, peer.version, value, ratio, peer.target, peer.note, samples)

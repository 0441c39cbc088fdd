"""The lag of all readers over time, and a picture of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla import Admin

EVERY_S = 0.5


@dataclass(frozen=True)
class Sample:
    """A measurement at one instant."""

    at_s: float
    produced: int
    lags: dict[str, int]


@dataclass
class Lags:
    """Looks at the groups twice a second, in a thread, while the block lasts.

    `produced` is told by the producer's thread; a group that has not committed yet is behind by everything.
    """

    bootstrap: str
    zookeeper: str
    groups: Sequence[str]
    produced: int = 0
    samples: list[Sample] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _stop: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _failure: Exception | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def sent(self, count: int) -> None:
        """Count events that were written to the topic."""
        self.produced += count

    def mark(self, what: str) -> None:
        """Note an event of the demo: it is printed, and drawn in the picture."""
        at_s = time.monotonic() - self._began
        self.marks.append((at_s, what))
        print(f"  {at_s:5.1f} s  {what}")

    def wait_until(self, holds: Callable[[Sample], bool], what: str, timeout_s: float) -> None:
        """Wait until a new sample fulfils the condition. Raises if none does in time."""
        with self._changed:
            # The one that is being taken may be from before what the caller has just done.
            first = len(self.samples) + 1
            done = self._changed.wait_for(
                lambda: self._failure or (len(self.samples) > first and holds(self.samples[-1])), timeout_s
            )
        if self._failure:
            raise self._failure
        assert done, f"after {timeout_s} s it is not so that {what}: {self.samples[-1:]}"

    def _watch(self) -> None:
        properties = {"bootstrap.servers": self.bootstrap}
        if self.zookeeper:
            properties["zookeeper.connect"] = self.zookeeper
        try:
            with Admin(properties) as admin:
                while not self._stop.wait(EVERY_S):
                    sample = self._look(admin)
                    with self._changed:
                        self.samples.append(sample)
                        self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - raised by who waits
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _look(self, admin: Admin) -> Sample:
        at_s, produced = time.monotonic() - self._began, self.produced
        there = {group.group_id for group in admin.list_groups()}
        lags = dict.fromkeys(self.groups, produced)
        for group in there & lags.keys():
            done = sum(group_offset.offset for group_offset in admin.group_offsets(group).values())
            lags[group] = max(0, produced - done)
        return Sample(at_s, produced, lags)


def draw(lags: Lags, path: Path) -> None:
    """Throughput and lag over time, as a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(11, 7), layout="constrained")
    times = [sample.at_s for sample in lags.samples]
    middles = times[1:]

    def rates(counts: list[int]) -> list[float]:
        pairs = zip(counts, counts[1:], times, times[1:], strict=False)
        return [(new - old) / (to - since) / 1e3 for old, new, since, to in pairs]

    above.plot(middles, rates([sample.produced for sample in lags.samples]), "k--", label="produced")
    for group in lags.groups:
        done = [sample.produced - sample.lags[group] for sample in lags.samples]
        above.plot(middles, rates(done), label=f"committed by {group}")
        below.plot(times, [sample.lags[group] / 1e3 for sample in lags.samples], label=group)
    above.set(title="ExternalAdService: throughput and lag", ylabel="thousand events a second")
    below.set(xlabel="seconds", ylabel="lag in thousand events")
    for axes in (above, below):
        axes.legend(loc="center left", fontsize="small")
        axes.grid(alpha=0.3)
        for at_s, _ in lags.marks:
            axes.axvline(at_s, color="grey", linewidth=0.8, linestyle=":")
    for at_s, what in lags.marks:
        below.annotate(what, (at_s, below.get_ylim()[1]), rotation=90, fontsize=7, va="top", ha="right")
    figure.savefig(path, dpi=110)
    plt.close(figure)

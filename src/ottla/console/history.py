"""Bounded series of numbers over time: recent ones in full, older ones thinned out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

POINTS_MAX = 240
SERIES_MAX = 4000
SAVED_MAX = 200_000
"""Points in a file, which then has about 6 MB: with many series, fewer of each."""
Point = tuple[float, float]


@dataclass(slots=True)
class Series:
    """Points in order of time. When it is full, every second point of the older half is dropped."""

    points: list[Point] = field(default_factory=list)

    def add(self, at: float, value: float) -> None:
        """Add a point; one that is not later than the last is left out."""
        if self.points and at <= self.points[-1][0]:
            return
        self.points.append((at, value))
        if len(self.points) > POINTS_MAX:
            half = POINTS_MAX // 2
            self.points = self.points[:half:2] + self.points[half:]

    def time_of(self, value: float) -> float | None:
        """Return when a growing series first had this value, interpolated; None if it always or
        never had it.
        """
        before: Point | None = None
        for at, number in self.points:
            if number >= value:
                if before is None:
                    return None
                share = (value - before[1]) / (number - before[1])
                return before[0] + share * (at - before[0])
            before = (at, number)
        return None

    def rates(self, count: int = POINTS_MAX) -> list[Point]:
        """Return the growth per second between the last `count` neighbours; 0 where it fell."""
        points = self.points[-count - 1 :]
        return [(at, max(0.0, value - last) / (at - then)) for (then, last), (at, value) in pairwise(points)]


class History:
    """Series by name. At most `SERIES_MAX`: names that come later are not kept."""

    def __init__(self) -> None:
        self._series: dict[str, Series] = {}

    def add(self, at: float, values: Mapping[str, float]) -> None:
        """Add a point to each series."""
        for name, value in values.items():
            series = self._series.get(name)
            if series is None:
                if len(self._series) >= SERIES_MAX:
                    continue
                series = self._series[name] = Series()
            series.add(at, value)

    def keep_only(self, names: Iterable[str]) -> None:
        """Forget all other series."""
        wanted = set(names)
        self._series = {name: series for name, series in self._series.items() if name in wanted}

    def series(self, name: str) -> Series:
        """The series; empty if there is none."""
        return self._series.get(name, Series())

    def to_json(self) -> dict[str, list[Point]]:
        """Return about `SAVED_MAX` points of all series at most, for a file; the newest of each are among
        them.
        """
        step = -(-sum(len(series.points) for series in self._series.values()) // SAVED_MAX) or 1
        return {
            name: [(round(at, 1), round(value, 1)) for at, value in series.points[::-step][::-1]]
            for name, series in self._series.items()
        }

    @classmethod
    def from_json(cls, saved: object) -> History:
        """Make a history from a file; entries of another form are left out."""
        history = cls()
        if not isinstance(saved, dict):
            return history
        for name, points in list(saved.items())[:SERIES_MAX]:
            series = Series()
            for point in points if isinstance(points, list) else ():
                if (
                    isinstance(point, list)
                    and len(point) == 2
                    and all(isinstance(n, int | float) for n in point)
                ):
                    series.add(float(point[0]), float(point[1]))
            history._series[str(name)] = series
        return history

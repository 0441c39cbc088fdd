"""The files of a parquet table, in units that say which records they hold.

    PATH/date=2026-01-31/6f0c…-000000000017-00000.parquet      what readers see
    PATH/_ottla/units/6f0c…-000000000017.json                  a unit: its records' offsets, its files
    PATH/_ottla/staging/6f0c…-000000000017/                    what Spark is writing

A unit is a batch of a stream, a range that was run offline, or several of them put together. Records are
there once if no two units overlap: so a batch that is repeated is found and left alone, and what a range
covers can be replaced exactly.

A unit is committed by the one rename that lets its file appear. That file also says what is left to do: which
staged files move in, which units give way. Whoever is killed in between leaves it to the next one that takes
the table's lock. Paths are of the driver's file system, or one that it shares with the executors.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ottla.spark.pipeline.spans import (
    Spans,
    from_json,
    hull,
    is_overlap,
    to_json,
    united,
    without,
)
from ottla.spark.whole_files import write_whole

OWN = "_ottla"


@dataclass(frozen=True, slots=True)
class Unit:
    """Files are relative to the table. `moves` (from, to) and `replaces` are what is still to be done."""

    name: str
    spans: Spans
    files: tuple[str, ...] = ()
    nbytes: int = 0
    moves: tuple[tuple[str, str], ...] = ()
    replaces: tuple[str, ...] = ()

    def text(self) -> str:
        """As it is stored."""
        return json.dumps(
            {
                "offsets": to_json(self.spans),
                "files": self.files,
                "bytes": self.nbytes,
                "moves": self.moves,
                "replaces": self.replaces,
            }
        )

    @classmethod
    def of(cls, name: str, told: dict[str, Any]) -> Unit:
        """The reverse."""
        moves = tuple((source, target) for source, target in told["moves"])
        return cls(
            name,
            from_json(told["offsets"]),
            tuple(told["files"]),
            told["bytes"],
            moves,
            tuple(told["replaces"]),
        )


@contextmanager
def table_lock(root: Path) -> Iterator[None]:
    """One writer at a time, of all processes."""
    place = root / OWN / "lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class TableUnits:
    """The units of one table. Holds nothing open but the lock, while it is taken."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._units = root / OWN / "units"

    def staging(self, name: str) -> Path:
        """Where a unit's files are written; what an earlier try has left there is gone."""
        place = self.root / OWN / "staging" / name
        shutil.rmtree(place, ignore_errors=True)
        return place

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time; what a killed one has left half done is done."""
        self._units.mkdir(parents=True, exist_ok=True)
        with table_lock(self.root):
            for unit in self.all():
                self._finish(unit)
            yield

    def all(self) -> list[Unit]:
        """Every unit, by name."""
        try:
            names = sorted(name for name in os.listdir(self._units) if name.endswith(".json"))
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            text = (self._units / name).read_text()
            found.append(Unit.of(name.removesuffix(".json"), json.loads(text)))
        return found

    def commit(self, name: str, spans: Spans, staged: Path, replaces: Sequence[Unit] = ()) -> int:
        """Let what is staged appear, instead of units of other names; how many files. The lock is taken."""
        moves = tuple(self._moves(name, staged))
        unit = Unit(
            name,
            spans,
            tuple(target for _, target in moves),
            sum((self.root / source).stat().st_size for source, _ in moves),
            moves,
            tuple(one.name for one in replaces),
        )
        write_whole(self._units / f"{name}.json", unit.text())
        self._finish(unit)
        shutil.rmtree(staged, ignore_errors=True)
        return len(moves)

    def _moves(self, name: str, staged: Path) -> Iterator[tuple[str, str]]:
        files = sorted(path for path in staged.rglob("*.parquet") if not path.name.startswith((".", "_")))
        # Spark writes a file without rows where there is nothing to write.
        full = [path for path in files if pq.read_metadata(path).num_rows]
        for number, path in enumerate(full):
            directory = path.parent.relative_to(staged)
            yield str(path.relative_to(self.root)), str(directory / f"{name}-{number:05d}.parquet")

    def _finish(self, unit: Unit) -> None:
        """Do what the unit says is left. It may be half done already."""
        for source, target in unit.moves:
            place = self.root / target
            place.parent.mkdir(parents=True, exist_ok=True)
            if (self.root / source).exists():
                os.replace(self.root / source, place)
        for name in unit.replaces:
            path = self._units / f"{name}.json"
            if path.exists():
                for file in Unit.of(name, json.loads(path.read_text())).files:
                    (self.root / file).unlink(missing_ok=True)
                path.unlink()
        if unit.moves or unit.replaces:
            write_whole(self._units / f"{unit.name}.json", replace(unit, moves=(), replaces=()).text())


# --- decided without a file


def missing(units: Iterable[Unit], name: str, spans: Spans) -> Spans:
    """What of a batch is not in the table: a range may have been run over some of it, or another query."""
    there = list(units)
    if any(one.name == name for one in there):
        return {}
    return without(spans, united(one.spans for one in there))


def extended(spans: Spans, units: Sequence[Unit]) -> Spans:
    """A range that cuts no unit: one span a partition, with all of every unit that it touches."""
    while True:
        touched = [one.spans for one in units if is_overlap(spans, one.spans)]
        wider = hull(united([spans, *touched]))
        if wider == spans:
            return spans
        spans = wider


def to_compact(units: Iterable[Unit], after: int, target_bytes: int) -> list[Unit]:
    """Units that are to be put together, in the order of their records; none unless there are enough."""
    small = [one for one in units if one.nbytes < target_bytes]
    if not after or len(small) < max(2, after):
        return []
    chosen: list[Unit] = []
    for one in sorted(small, key=lambda unit: (sorted(unit.spans.items()), unit.name)):
        chosen.append(one)
        if sum(each.nbytes for each in chosen) >= target_bytes:
            break
    return chosen if len(chosen) > 1 else []

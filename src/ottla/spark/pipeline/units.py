"""The files of a parquet table, in units that know which records they hold.

    PATH/date=2026-01-31/6f0c…-000000000017-00000.parquet      what readers see
    PATH/_ottla/units/6f0c…-000000000017.json                  a unit: its records' offsets, its files
    PATH/_ottla/staging/6f0c…-000000000017/                    what Spark is writing

A unit is a batch of a stream, a range that was run offline, or several of them merged. Every record is stored
once if no two units overlap: so a repeated batch is recognised, and a range can be replaced exactly.

One rename, which makes the unit's file appear, commits the unit. That file also lists what is left to do:
which staged files move in, and which units are replaced. If the process is killed in between, the next one
that takes the table's lock completes it. Paths are on the driver's file system, or on one shared with the
executors.
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
    """A unit. Files are relative to the table. `moves` (from, to) and `replaces` are still to be done."""

    name: str
    spans: Spans
    files: tuple[str, ...] = ()
    nbytes: int = 0
    moves: tuple[tuple[str, str], ...] = ()
    replaces: tuple[str, ...] = ()

    def text(self) -> str:
        """The unit as JSON."""
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
    def of(cls, name: str, fields: dict[str, Any]) -> Unit:
        """A unit from its name and JSON fields."""
        moves = tuple((source, target) for source, target in fields["moves"])
        return cls(
            name,
            from_json(fields["offsets"]),
            tuple(fields["files"]),
            fields["bytes"],
            moves,
            tuple(fields["replaces"]),
        )


@contextmanager
def table_lock(root: Path) -> Iterator[None]:
    """Hold the table's lock: one writer at a time, across processes."""
    path = root / OWN / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class TableUnits:
    """The units of one table. Keeps nothing open except the lock, while it is held."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._units = root / OWN / "units"

    def staging(self, name: str) -> Path:
        """The empty directory for a unit's files; leftovers of an earlier attempt are removed."""
        path = self.root / OWN / "staging" / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, after completing what a killed writer left unfinished."""
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
        units = []
        for name in names:
            text = (self._units / name).read_text()
            units.append(Unit.of(name.removesuffix(".json"), json.loads(text)))
        return units

    def commit(self, name: str, spans: Spans, staged: Path, replaces: Sequence[Unit] = ()) -> int:
        """Commit the staged files as a unit that replaces others.

        Returns the number of files. Needs the lock.
        """
        moves = tuple(self._moves(name, staged))
        unit = Unit(
            name,
            spans,
            tuple(target for _, target in moves),
            sum((self.root / source).stat().st_size for source, _ in moves),
            moves,
            tuple(unit.name for unit in replaces),
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
        """Complete a committed unit; parts may be done already."""
        for source, target in unit.moves:
            target_path = self.root / target
            target_path.parent.mkdir(parents=True, exist_ok=True)
            if (self.root / source).exists():
                os.replace(self.root / source, target_path)
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
    """The records of a batch that no unit has. A range or another query may have written some of them."""
    there = list(units)
    if any(unit.name == name for unit in there):
        return {}
    return without(spans, united(unit.spans for unit in there))


def extended(spans: Spans, units: Sequence[Unit]) -> Spans:
    """The range, widened to contain every unit that it touches: one span for each partition."""
    while True:
        touched = [unit.spans for unit in units if is_overlap(spans, unit.spans)]
        wider = hull(united([spans, *touched]))
        if wider == spans:
            return spans
        spans = wider


def to_compact(units: Iterable[Unit], after: int, target_bytes: int) -> list[Unit]:
    """The units to merge, in the order of their records; none if there are fewer than `after` small ones."""
    small = [unit for unit in units if unit.nbytes < target_bytes]
    if not after or len(small) < max(2, after):
        return []
    chosen: list[Unit] = []
    for unit in sorted(small, key=lambda small_unit: (sorted(small_unit.spans.items()), small_unit.name)):
        chosen.append(unit)
        if sum(part.nbytes for part in chosen) >= target_bytes:
            break
    return chosen if len(chosen) > 1 else []

"""The files of a parquet table, in units that know which records they hold.

    PATH/date=2026-01-31/6f0c…-000000000017-00000-5ad0….parquet   what readers see
    PATH/_ottla/units.json                                        all units: their offsets and files
    PATH/_ottla/staging/6f0c…-000000000017-5ad0…/                 what is being written

A unit is a batch of a stream, a range that was run offline, or several of them merged. Every record is stored
once if no two units overlap: so a repeated batch is recognised, and a range can be replaced exactly.

A commit replaces the whole list of units, only if no other writer has changed it since it was read. The list
also says what is left to do: staged files move in, files of replaced units are deleted. If the process is
killed in between, the next writer completes that.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.model.errors import ConfigError
from ottla.spark.locations import OWN, Location, remove_strays
from ottla.spark.pipeline.spans import (
    Spans,
    from_json,
    hull,
    is_overlap,
    to_json,
    united,
    without,
)

_LIST = f"{OWN}/units.json"
_STAGING = f"{OWN}/staging"


class StagedFile(NamedTuple):
    """A file with rows that is to become part of a unit; `directory` is its partition of the table."""

    path: str
    directory: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit. Files are relative to the table."""

    name: str
    spans: Spans
    files: tuple[str, ...] = ()
    nbytes: int = 0

    def fields(self) -> dict[str, Any]:
        """The unit as JSON."""
        return {"offsets": to_json(self.spans), "files": self.files, "bytes": self.nbytes}

    @classmethod
    def of(cls, name: str, fields: dict[str, Any]) -> Unit:
        """A unit from its name and JSON fields."""
        return cls(name, from_json(fields["offsets"]), tuple(fields["files"]), fields["bytes"])


@dataclass(frozen=True, slots=True)
class UnitList:
    """All units of a table, the files that still have to move (from, to), and those that still have to be
    deleted.
    """

    units: tuple[Unit, ...] = ()
    moves: tuple[tuple[str, str], ...] = ()
    drops: tuple[str, ...] = ()

    def content(self) -> bytes:
        """The list as JSON."""
        units = {unit.name: unit.fields() for unit in self.units}
        return json.dumps({"units": units, "moves": self.moves, "drops": self.drops}).encode()

    @classmethod
    def of(cls, content: bytes) -> UnitList:
        """Parse what `content` returns."""
        fields = json.loads(content)
        units = tuple(Unit.of(name, unit) for name, unit in sorted(fields["units"].items()))
        return cls(units, tuple((source, to) for source, to in fields["moves"]), tuple(fields["drops"]))

    def with_unit(self, unit: Unit, moves: Sequence[tuple[str, str]], replaced: Iterable[Unit]) -> UnitList:
        """The list after a commit."""
        old = {listed.name: listed for listed in replaced}
        kept = (listed for listed in self.units if listed.name not in old)
        drops = (file for listed in old.values() for file in listed.files)
        return UnitList((*kept, unit), (*self.moves, *moves), (*self.drops, *drops))


Decide = Callable[[Sequence[Unit]], Sequence[Unit] | None]
"""Gets the units of a table, and returns those that a new unit replaces; None, or an error, if there must be
no new unit.
"""


class TableUnits:
    """The units of one table. Keeps nothing open except the lock of a directory, while it is held."""

    def __init__(self, where: Location) -> None:
        self.where = where

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Complete what a killed writer left; inside the block, other writers of a directory wait."""
        with self.where.lock():
            self._finish()
            yield

    def all(self) -> Sequence[Unit]:
        """Every unit, by name."""
        return self._read()[0].units

    def staging(self, name: str) -> str:
        """A new directory for the files of a unit; each attempt has its own."""
        return f"{_STAGING}/{name}-{uuid.uuid4().hex[:12]}"

    def commit(
        self, name: str, spans: Spans, staged: str, files: Sequence[StagedFile], decide: Decide
    ) -> bool:
        """Commit the files of a directory from `staging` as a unit. Returns False if `decide` returns None.

        Use it within `settled`.
        """
        token = staged.rpartition("-")[2]
        moves = [
            (file.path, "/".join(filter(None, (file.directory, f"{name}-{number:05d}-{token}.parquet"))))
            for number, file in enumerate(files)
        ]
        unit = Unit(name, spans, tuple(to for _, to in moves), sum(file.nbytes for file in files))
        is_committed = True
        while True:
            there, version = self._read()
            if unit in there.units:
                break  # the store has accepted it, but its answer was lost
            replaced = decide(there.units)
            if replaced is None:
                is_committed = False
                break
            new = there.with_unit(unit, moves, replaced)
            if self.where.replace(_LIST, new.content(), version):
                break
        self._finish()
        self.where.delete([entry.path for entry in self.where.list(staged)])
        remove_strays(self.where, _STAGING)
        return is_committed

    def _read(self) -> tuple[UnitList, Any]:
        stored = self.where.read(_LIST)
        if stored is not None:
            return UnitList.of(stored.content), stored.version
        if self.where.list(f"{OWN}/units"):
            raise ConfigError(f"{self.where.url}: an older version has written this table; use another path")
        return UnitList(), None

    def _finish(self) -> None:
        """Do what commits have left to do; parts of that may be done already."""
        while True:
            there, version = self._read()
            if not there.moves and not there.drops:
                return
            for source, target in there.moves:
                self.where.move(source, target)
            self.where.delete(there.drops)
            self.where.replace(_LIST, UnitList(there.units).content(), version)


# --- decided without a file


def missing(units: Iterable[Unit], name: str, spans: Spans) -> Spans:
    """The records of a batch that no unit has. A range or another query may have written some of them."""
    there = list(units)
    if any(unit.name == name for unit in there):
        return {}
    return without(spans, united(unit.spans for unit in there))


def extended(spans: Spans, units: Sequence[Unit]) -> Spans:
    """Return the range, widened to contain every unit that it touches: one span for each partition."""
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

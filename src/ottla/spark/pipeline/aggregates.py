"""A parquet table of windows' totals, which change as records come: a file for each partition of the table.

    PATH/date=2026-01-31/totals.parquet

A row is known by its window and its groups, and a batch brings the new totals of the rows that it changed. So
a batch that is repeated changes nothing, and a file is the old one or the new one whenever the driver dies.
The table is as large as there are windows and groups, and is written by the driver.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.spark.pipeline.units import OWN, table_lock
from ottla.spark.whole_files import appear

log = logging.getLogger(__name__)

NAME = "totals.parquet"
WINDOW_START, WINDOW_END = "window_start", "window_end"
NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class Times:
    """Windows that begin from one time to before another; None is without a bound."""

    start: datetime | None = None
    end: datetime | None = None

    @property
    def is_all(self) -> bool:
        """Whether every window is meant."""
        return self.start is None and self.end is None

    def mask(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Which of these times are within."""
        kind = column.type
        found = pc.is_valid(column)
        if self.start is not None:
            found = pc.and_(found, pc.greater_equal(column, pa.scalar(self.start, kind)))
        if self.end is not None:
            found = pc.and_(found, pc.less(column, pa.scalar(self.end, kind)))
        return found


class TotalsTable:
    """Belongs to one thread of the driver."""

    def __init__(self, path: str, keys: Sequence[str], partition_by: Sequence[str]) -> None:
        self._root = Path(path.removeprefix("file:"))
        self._keys = tuple(keys)
        self._partition_by = tuple(partition_by)

    def merge(self, news: pa.Table) -> None:
        """Rows of a batch take the place of those with their keys."""
        with table_lock(self._root):
            for directory, rows in self._parts(news).items():
                old = self._read(directory)
                kept = [] if old is None else [without(old, rows, self._keys)]
                self._write(directory, pa.concat_tables([*kept, rows], promote_options="default"))

    def replace(self, rows: pa.Table, times: Times) -> None:
        """Rows take the place of all those of the windows that begin within."""
        with table_lock(self._root):
            self._replace(rows, times)
        log.info("%d rows of windows into %s", rows.num_rows, self._root)

    def _replace(self, rows: pa.Table, times: Times) -> None:
        parts = self._parts(rows)
        there = {path.parent.relative_to(self._root) for path in self._root.rglob(NAME)}
        for directory in sorted(there | parts.keys()):
            old = self._read(directory)
            left = [] if old is None else [old.filter(pc.invert(times.mask(old.column(WINDOW_START))))]
            both = [one for one in (*left, parts.get(directory)) if one is not None and one.num_rows]
            if both:
                self._write(directory, pa.concat_tables(both, promote_options="default"))
            else:
                (self._root / directory / NAME).unlink(missing_ok=True)

    def _parts(self, rows: pa.Table) -> dict[Path, pa.Table]:
        if not rows.num_rows:
            return {}
        if not self._partition_by:
            return {Path(): rows}
        found = {}
        groups = rows.select(self._partition_by).group_by(self._partition_by).aggregate([])
        for group in groups.to_pylist():
            chosen = pa.array([True] * rows.num_rows)
            for name, value in group.items():
                column = rows.column(name)
                same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)  # noqa: FBT003
                chosen = pc.and_(chosen, same)
            found[directory_of(group)] = rows.filter(chosen).drop_columns(self._partition_by)
        return found

    def _read(self, directory: Path) -> pa.Table | None:
        try:
            return pq.ParquetFile(self._root / directory / NAME).read()
        except FileNotFoundError:
            return None

    def _write(self, directory: Path, rows: pa.Table) -> None:
        place = self._root / directory / NAME
        place.parent.mkdir(parents=True, exist_ok=True)
        hidden = self._root / OWN / uuid.uuid4().hex
        keys = [key for key in self._keys if key in rows.column_names]
        pq.write_table(rows.sort_by([(key, "ascending") for key in keys]), hidden)
        appear(hidden, place)


def without(old: pa.Table, news: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Rows whose keys are not among the new ones."""
    names = [key for key in keys if key in old.column_names]
    new_keys = set(_tuples(news, names))
    return old.filter(pa.array([row not in new_keys for row in _tuples(old, names)], pa.bool_()))


def _tuples(table: pa.Table, names: Sequence[str]) -> list[tuple[object, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def directory_of(values: dict[str, object]) -> Path:
    """Where rows with these values of partition columns are, as all readers of such tables know it."""
    parts = (
        f"{name}={NULL_DIRECTORY if value is None or value == '' else quote(str(value), safe=' ')}"
        for name, value in values.items()
    )
    return Path(*parts)

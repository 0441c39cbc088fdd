"""A parquet table of window totals, updated as records arrive: one file for each partition of the table.

    PATH/date=2026-01-31/totals.parquet

Window and groups identify a row; a batch brings the new totals of the rows that it changed. So repeating a
batch changes nothing, and if the driver dies a file is either the old or the new one. The table has one row
per window and group, and the driver writes it.
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
    """Windows that begin between `start` and before `end`; None means unbounded."""

    start: datetime | None = None
    end: datetime | None = None

    @property
    def is_all(self) -> bool:
        """Whether both bounds are open."""
        return self.start is None and self.end is None

    def mask(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Which of the times lie within the bounds."""
        kind = column.type
        mask = pc.is_valid(column)
        if self.start is not None:
            mask = pc.and_(mask, pc.greater_equal(column, pa.scalar(self.start, kind)))
        if self.end is not None:
            mask = pc.and_(mask, pc.less(column, pa.scalar(self.end, kind)))
        return mask


class TotalsTable:
    """For one thread of the driver."""

    def __init__(self, path: str, keys: Sequence[str], partition_by: Sequence[str]) -> None:
        self._root = Path(path.removeprefix("file:"))
        self._keys = tuple(keys)
        self._partition_by = tuple(partition_by)

    def merge(self, news: pa.Table) -> None:
        """Replace the rows that have the same keys as rows of the batch; add the others."""
        with table_lock(self._root):
            for directory, rows in self._parts(news).items():
                old = self._read(directory)
                kept = [] if old is None else [without(old, rows, self._keys)]
                self._write(directory, pa.concat_tables([*kept, rows], promote_options="default"))

    def replace(self, rows: pa.Table, times: Times) -> None:
        """Replace all rows of the windows that begin within `times`."""
        with table_lock(self._root):
            self._replace(rows, times)
        log.info("%d rows of windows into %s", rows.num_rows, self._root)

    def _replace(self, rows: pa.Table, times: Times) -> None:
        parts = self._parts(rows)
        there = {path.parent.relative_to(self._root) for path in self._root.rglob(NAME)}
        for directory in sorted(there | parts.keys()):
            old = self._read(directory)
            left = [] if old is None else [old.filter(pc.invert(times.mask(old.column(WINDOW_START))))]
            both = [table for table in (*left, parts.get(directory)) if table is not None and table.num_rows]
            if both:
                self._write(directory, pa.concat_tables(both, promote_options="default"))
            else:
                (self._root / directory / NAME).unlink(missing_ok=True)

    def _parts(self, rows: pa.Table) -> dict[Path, pa.Table]:
        if not rows.num_rows:
            return {}
        if not self._partition_by:
            return {Path(): rows}
        parts = {}
        groups = rows.select(self._partition_by).group_by(self._partition_by).aggregate([])
        for group in groups.to_pylist():
            chosen = pa.array([True] * rows.num_rows)
            for name, value in group.items():
                column = rows.column(name)
                same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)  # noqa: FBT003
                chosen = pc.and_(chosen, same)
            parts[directory_of(group)] = rows.filter(chosen).drop_columns(self._partition_by)
        return parts

    def _read(self, directory: Path) -> pa.Table | None:
        try:
            return pq.ParquetFile(self._root / directory / NAME).read()
        except FileNotFoundError:
            return None

    def _write(self, directory: Path, rows: pa.Table) -> None:
        path = self._root / directory / NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = self._root / OWN / uuid.uuid4().hex
        keys = [key for key in self._keys if key in rows.column_names]
        pq.write_table(rows.sort_by([(key, "ascending") for key in keys]), hidden)
        appear(hidden, path)


def without(old: pa.Table, news: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The old rows whose keys are not among the new rows."""
    names = [key for key in keys if key in old.column_names]
    new_keys = set(_tuples(news, names))
    return old.filter(pa.array([row not in new_keys for row in _tuples(old, names)], pa.bool_()))


def _tuples(table: pa.Table, names: Sequence[str]) -> list[tuple[object, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def directory_of(values: dict[str, object]) -> Path:
    """The directory of rows with these values of the partition columns, in Hive's form."""
    parts = (
        f"{name}={NULL_DIRECTORY if value is None or value == '' else quote(str(value), safe=' ')}"
        for name, value in values.items()
    )
    return Path(*parts)

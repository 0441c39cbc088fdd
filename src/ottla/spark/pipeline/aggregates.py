"""A parquet table of window totals, updated as records arrive: one file for each partition of the table.

    PATH/date=2026-01-31/totals.parquet

Window and groups identify a row; a batch brings the new totals of the rows that it changed. So repeating a
batch changes nothing, and if the driver dies a file is either the old or the new one. The table has one row
per window and group, and the driver writes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.spark.locations import OWN, location
from ottla.spark.pipeline.table_files import partitions

log = logging.getLogger(__name__)

NAME = "totals.parquet"
WINDOW_START, WINDOW_END = "window_start", "window_end"


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
        self._where = location(path)
        self._keys = tuple(keys)
        self._partition_by = tuple(partition_by)

    def merge(self, news: pa.Table) -> None:
        """Replace the rows that have the same keys as rows of the batch; add the other rows."""
        with self._where.lock():
            for directory, rows in partitions(news, self._partition_by).items():
                self._change(directory, partial(self._with_news, rows))

    def _with_news(self, news: pa.Table, old: pa.Table) -> list[pa.Table]:
        return [without(old, news, self._keys), news]

    def replace(self, rows: pa.Table, times: Times) -> None:
        """Replace all rows of the windows that begin within `times`."""

        def left_and(news: pa.Table, old: pa.Table) -> list[pa.Table]:
            left = old.filter(pc.invert(times.mask(old.column(WINDOW_START)))) if old.num_rows else old
            return [left, news]

        with self._where.lock():
            parts = partitions(rows, self._partition_by)
            names = {entry.path for entry in self._where.list() if Path(entry.path).name == NAME}
            there = {name.removesuffix(NAME).rstrip("/") for name in names if not name.startswith(OWN)}
            for directory in sorted(there | parts.keys()):
                self._change(directory, partial(left_and, parts.get(directory, rows.slice(0, 0))))
        log.info("%d rows of windows into %s", rows.num_rows, self._where.url)

    def _change(self, directory: str, changed: Callable[[pa.Table], list[pa.Table]]) -> None:
        """Replace a directory's file by what `changed` returns; tries again if another writer was faster."""
        path = f"{directory}/{NAME}" if directory else NAME
        while True:
            stored = self._where.read(path)
            old = pq.ParquetFile(pa.BufferReader(stored.content)).read() if stored else pa.table({})
            full = [table for table in changed(old) if table.num_rows]
            if not full:
                self._where.delete([path])
                return
            content = self._content(pa.concat_tables(full, promote_options="default"))
            if self._where.replace(path, content, stored and stored.version):
                return

    def _content(self, rows: pa.Table) -> bytes:
        keys = [key for key in self._keys if key in rows.column_names]
        out = pa.BufferOutputStream()
        pq.write_table(rows.sort_by([(key, "ascending") for key in keys]), out)
        return bytes(out.getvalue())


def without(old: pa.Table, news: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The old rows whose keys are not among the new rows."""
    names = [key for key in keys if key in old.column_names]
    if not old.num_rows:
        return old
    new_keys = set(_tuples(news, names))
    return old.filter(pa.array([row not in new_keys for row in _tuples(old, names)], pa.bool_()))


def _tuples(table: pa.Table, names: Sequence[str]) -> list[tuple[object, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))

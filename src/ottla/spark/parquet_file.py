"""A parquet file of raw records: large row groups, and an encoding that suits each column."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.model.errors import StorageError

ROW_GROUP_BYTES = 64 << 20
ROW_GROUP_ROWS = 1 << 20
# What repeats is written once; bytes of messages and growing numbers do not repeat, and keys may.
DICTIONARY = ["key", "topic", "partition", "timestampType"]
MAY_REPEAT = "key"
# A dictionary of more different keys than there would be is full, and is given up after it was paid for.
SLICES, SLICE_ROWS, DIFFERENT_MAX = 16, 1 << 10, 0.9
# What grows from row to row is written as differences: a byte or two instead of eight.
GROWING = ["offset", "timestamp"]
# Readers choose parts of a file by the smallest and the largest of these; of values nobody asks.
MEASURED = ["key", "topic", "partition", "offset", "timestamp", "timestampType"]


class RawParquetFile:
    """A file that is being written. Rows are kept until they fill a row group. For one thread.

    The file is there after `close`, or when the first row group is full: its rows decide how it is encoded.
    """

    def __init__(self, path: Path, schema: pa.Schema, compression: str) -> None:
        self.path = path
        self.rows = 0
        self._schema = schema
        self._compression = compression
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = self._pending_rows = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, in the order of their offsets. Raises StorageError."""
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        self._pending_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._pending_bytes >= ROW_GROUP_BYTES or self._pending_rows >= ROW_GROUP_ROWS:
            with self._as_storage_errors():
                self._write()

    def close(self) -> int:
        """Write what is left and close the file. Returns its size in bytes. Raises StorageError."""
        with self._as_storage_errors():
            self._write().close()
            return self.path.stat().st_size

    def abandon(self) -> None:
        """Remove what was written."""
        if self._writer is not None:
            with suppress(OSError):  # the disk may be full
                self._writer.close()
        self.path.unlink(missing_ok=True)

    @contextmanager
    def _as_storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise StorageError(f"{self.path}: {why}") from error

    def _write(self) -> pq.ParquetWriter:
        rows = pa.Table.from_batches(
            self._pending, self._pending[0].schema if self._pending else self._schema
        )
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0
        if self._writer is None:
            self._writer = self._opened(rows)
        if rows.num_rows:
            self._writer.write_table(rows.cast(self._schema), row_group_size=ROW_GROUP_ROWS)
        return self._writer

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        dictionary, growing, measured = (
            [name for name in names if name in self._schema.names]
            for names in (DICTIONARY, GROWING, MEASURED)
        )
        if MAY_REPEAT in dictionary and not repeats(first.column(MAY_REPEAT)):
            dictionary.remove(MAY_REPEAT)
        return pq.ParquetWriter(
            self.path,
            self._schema,
            compression=self._compression,
            use_dictionary=dictionary or False,
            column_encoding=dict.fromkeys(growing, "DELTA_BINARY_PACKED") or None,
            write_statistics=measured or False,
        )


def repeats(values: pa.ChunkedArray) -> bool:
    """Whether a dictionary of the values is worth its price, as slices of them tell."""
    if len(values) > SLICES * SLICE_ROWS:
        slices = (values.slice(n * len(values) // SLICES, SLICE_ROWS) for n in range(SLICES))
        values = pa.chunked_array([chunk for each in slices for chunk in each.chunks])
    return len(values.unique()) <= max(1, DIFFERENT_MAX * len(values))

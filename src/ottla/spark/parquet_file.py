"""A parquet file of raw records: large row groups, and an encoding that suits each column."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP_BYTES = 64 << 20
ROW_GROUP_ROWS = 1 << 20
# What repeats is written once; bytes of messages and growing numbers do not repeat.
DICTIONARY = ["key", "topic", "partition", "timestampType"]
# What grows from row to row is written as differences: a byte or two instead of eight.
GROWING = ["offset", "timestamp"]
# Readers choose parts of a file by the smallest and the largest of these; of values nobody asks.
MEASURED = ["key", "topic", "partition", "offset", "timestamp", "timestampType"]


class RawParquetFile:
    """A file that is being written. Rows are kept until they fill a row group. For one thread."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str) -> None:
        dictionary, growing, measured = (
            [name for name in names if name in schema.names] for names in (DICTIONARY, GROWING, MEASURED)
        )
        self.path = path
        self.rows = 0
        self._schema = schema
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = self._pending_rows = 0
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression=compression,
            use_dictionary=dictionary or False,
            column_encoding=dict.fromkeys(growing, "DELTA_BINARY_PACKED") or None,
            write_statistics=measured or False,
        )

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, in the order of their offsets."""
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        self._pending_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._pending_bytes >= ROW_GROUP_BYTES or self._pending_rows >= ROW_GROUP_ROWS:
            self._write()

    def close(self) -> int:
        """Write what is left and close the file. Returns its size in bytes."""
        self._write()
        self._writer.close()
        return self.path.stat().st_size

    def abandon(self) -> None:
        """Remove what was written."""
        self._writer.close()
        self.path.unlink(missing_ok=True)

    def _write(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending).cast(self._schema)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0

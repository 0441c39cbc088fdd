"""Pipelines in tests: runs of all that is there, a driver that died before its last batch, tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from ottla.spark import Pipeline
from ottla.spark.iceberg import IcebergTable


def table_of(path: str | Path, kind: str) -> pa.Table:
    """What foreign readers see of a table in a directory."""
    if kind == "delta":
        return DeltaTable(path).to_pyarrow_table()
    if kind == "iceberg":
        table: Any = IcebergTable(str(path))._named.load()
        return table.scan().to_arrow()
    return ds.dataset(path, partitioning="hive").to_table()


def run_online(spark: Any, pipeline: Pipeline, state: Path) -> None:
    assert pipeline.online(spark, state, trigger={"availableNow": True}).awaitTermination(250)


def forget_last_batch(state: Path) -> None:
    """The driver dies before its last batch counts as done."""
    last = max((state / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

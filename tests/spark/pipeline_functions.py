"""Functions that pipelines of tests name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def tagged(rows: Any) -> Any:
    return rows.selectExpr("*", "'tag' as tag")


def inverted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Fails for a batch that has a zero."""
    numbers = [int(value) for value in batch.column("value").to_pylist()]
    values = [1000 // number for number in numbers]
    return pa.record_batch({"number": pa.array(numbers), "part": pa.array(values, pa.int32())})

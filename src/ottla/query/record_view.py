"""Records as the table that SQL sees: keys and values as text, and as bytes in raw_key and raw_value.

Text that is not UTF-8 is written as \\x and hexadecimal digits, so that no record is hidden or refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.consumer.partition.replay import replay
from ottla.model.errors import OttlaError, Unsupported
from ottla.query.json_fields import field_columns, json_fields
from ottla.query.local_files import admin_properties, reader_properties
from ottla.records.columns import HEADERS, TIMESTAMP

SAMPLE_RECORDS, SAMPLE_PARTITIONS = 50, 4
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers", "raw_key", "raw_value")
VIEW_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("key", pa.string()),
        ("value", pa.string()),
        ("headers", HEADERS),
        ("raw_key", pa.binary()),
        ("raw_value", pa.binary()),
    ]
)
NO_DUCKDB = "SQL over topics needs DuckDB: pip install 'ottla[sql]'"


def duckdb_module() -> Any:
    """DuckDB. Raises Unsupported with the remedy if it is not installed."""
    try:
        import duckdb
    except ImportError as error:
        raise Unsupported(NO_DUCKDB) from error
    return duckdb


def texts(column: pa.Array) -> pa.Array:
    """A binary column as text."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in column.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "\\x" + value.hex()


def view_batch(partition: int, records: pa.RecordBatch) -> pa.RecordBatch:
    """Decoded records with the columns of `VIEW_SCHEMA`."""
    key, value = records.column("key"), records.column("value")
    rows = records.num_rows
    numbers = pa.array(np.full(rows, partition, np.int32))
    headers = records.column("headers") if "headers" in records.schema.names else pa.nulls(rows, HEADERS)
    columns = [
        numbers,
        records.column("offset"),
        records.column("timestamp"),
        texts(key),
        texts(value),
        headers,
    ]
    return pa.RecordBatch.from_arrays([*columns, key, value], schema=VIEW_SCHEMA)


def sampled_fields(topic: str, properties: Mapping[str, object]) -> dict[str, str]:
    """The JSON fields of the topic's last records, by some of its partitions; empty if it is not JSON."""
    from ottla.admin import Admin

    with Admin(admin_properties(properties)) as admin:
        ends = {part.partition: end.offset or 0 for part, end in admin.list_offsets(topic, "latest").items()}
        starts = {
            part.partition: at.offset or 0 for part, at in admin.list_offsets(topic, "earliest").items()
        }
    filled = [number for number in sorted(ends) if ends[number] > starts[number]][:SAMPLE_PARTITIONS]
    if not filled:
        return {}
    since = {number: max(starts[number], ends[number] - SAMPLE_RECORDS) for number in filled}
    given = {**reader_properties(properties), "include.headers": False, "auto.offset.reset": "earliest"}
    try:
        with replay(
            topic, filled, since, {number: ends[number] for number in filled}, properties=given
        ) as some:
            return json_fields(
                value for batch in some.batches() for value in batch.column("value").to_pylist()
            )
    except OttlaError:
        return {}  # the query itself meets the damage, and says so


def view_columns(fields: dict[str, str]) -> str:
    """What a view over such records selects."""
    return ", ".join(["*", *field_columns(fields, COLUMNS)])

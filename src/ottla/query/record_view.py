"""Records as the table that SQL sees: keys and values as text, and as bytes in raw_key and raw_value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.consumer.partition.replay import replay
from ottla.model.errors import OttlaError, Unsupported
from ottla.query.json_fields import field_columns
from ottla.query.local_files import admin_properties, reader_properties
from ottla.query.topic_columns import TopicColumns, topic_columns
from ottla.records.columns import HEADERS, MICROSECONDS, in_microseconds
from ottla.schemas.json_texts import JsonTexts

SAMPLE_RECORDS, SAMPLE_PARTITIONS = 50, 4
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers", "raw_key", "raw_value")
VIEW_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", MICROSECONDS),
        ("key", pa.string()),
        ("value", pa.string()),
        ("headers", HEADERS),
        ("raw_key", pa.binary()),
        ("raw_value", pa.binary()),
    ]
)
NO_DUCKDB = "SQL over topics needs DuckDB: pip install 'ottla[sql]'"


def duckdb_module() -> Any:
    """Import DuckDB. Raises Unsupported with the remedy if it is not installed."""
    try:
        import duckdb
    except ImportError as error:
        raise Unsupported(NO_DUCKDB) from error
    return duckdb


def view_batch(partition: int, records: pa.RecordBatch, columns: TopicColumns) -> pa.RecordBatch:
    """Decoded records with the columns of `VIEW_SCHEMA`."""
    key, value = records.column("key"), records.column("value")
    rows = records.num_rows
    numbers = pa.array(np.full(rows, partition, np.int32))
    headers = records.column("headers") if "headers" in records.schema.names else pa.nulls(rows, HEADERS)
    shown = [
        numbers,
        records.column("offset"),
        in_microseconds(records.column("timestamp")),
        columns.keys.texts(key),
        columns.values.texts(value),
        headers,
    ]
    return pa.RecordBatch.from_arrays([*shown, key, value], schema=VIEW_SCHEMA)


def sampled_columns(
    topic: str, properties: Mapping[str, object], json_texts: JsonTexts | None = None
) -> TopicColumns:
    """Return what SQL sees of a topic, by the last records of some of its partitions. Raises
    RegistryFailed.
    """
    return topic_columns(topic, _sample(topic, properties), json_texts)


def _sample(topic: str, properties: Mapping[str, object]) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values; none if the topic is empty or cannot be read: the query itself says why."""
    from ottla.admin import Admin

    with Admin(admin_properties(properties)) as admin:
        ends = {part.partition: end.offset or 0 for part, end in admin.list_offsets(topic, "latest").items()}
        starts = {
            part.partition: at.offset or 0 for part, at in admin.list_offsets(topic, "earliest").items()
        }
    filled = [number for number in sorted(ends) if ends[number] > starts[number]][:SAMPLE_PARTITIONS]
    if not filled:
        return []
    since = {number: max(starts[number], ends[number] - SAMPLE_RECORDS) for number in filled}
    given = {**reader_properties(properties), "include.headers": False, "auto.offset.reset": "earliest"}
    until = {number: ends[number] for number in filled}
    try:
        with replay(topic, filled, since, until, properties=given) as some:
            return [
                pair
                for batch in some.batches()
                for pair in zip(
                    batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True
                )
            ]
    except OttlaError:
        return []


def view_columns(columns: TopicColumns) -> str:
    """Return the columns that a view over such records selects."""
    return ", ".join(["*", *field_columns(columns.fields, COLUMNS)])

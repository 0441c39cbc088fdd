"""Decoded records → columns of Spark's Kafka schema, only those that the query uses. Pure.

key, value binary · topic string · partition int · offset long · timestamp timestamp · timestampType int
headers array<struct<key string, value binary>>, null where a record has none
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.columns import in_microseconds

HEADERS = "headers"
NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", HEADERS)
REPEATED_ROWS = 1 << 16
_BY_NAME = {name.lower(): name for name in NAMES}


def chosen(columns: Iterable[str], *, has_headers: bool) -> list[str]:
    """The columns of a table: those of the option `columns`, or all. Raises ConfigError."""
    names = [_known(name) for name in columns]
    if not names:
        return [name for name in NAMES if name != HEADERS or has_headers]
    if len(set(names)) < len(names):
        raise ConfigError(f"columns={','.join(names)}: a column is named twice")
    if HEADERS in names and not has_headers:
        raise ConfigError("columns has headers: set includeHeaders to true as well")
    return names


def _known(name: str) -> str:
    column = _BY_NAME.get(name.strip().lower())
    if column is None:
        raise ConfigError(f"columns has {name!r}; there are {', '.join(NAMES)}")
    return column


class SparkColumnMaker:
    """Makes batches of one Arrow schema. Columns with one repeated value are built once and sliced."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._repeated: dict[tuple[str, str | int], pa.Array] = {}

    def rows(self, topic_partition: TopicAndPartition, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records of one partition as rows."""
        arrays = [_MAKERS[field.name](self, topic_partition, records, field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _same(self, name: str, value: str | int, kind: pa.DataType, count: int) -> pa.Array:
        made = self._repeated.get((name, value))
        if made is None or len(made) < count:
            made = pa.repeat(pa.scalar(value, kind), max(count, REPEATED_ROWS))
            self._repeated[name, value] = made
        return made[:count]

    def _topic(
        self, topic_partition: TopicAndPartition, records: pa.RecordBatch, kind: pa.DataType
    ) -> pa.Array:
        return self._same("topic", topic_partition.topic, kind, records.num_rows)

    def _partition(
        self, topic_partition: TopicAndPartition, records: pa.RecordBatch, kind: pa.DataType
    ) -> pa.Array:
        return self._same("partition", topic_partition.partition, kind, records.num_rows)

    def _timestamp_type(self, _: TopicAndPartition, records: pa.RecordBatch, kind: pa.DataType) -> pa.Array:
        return records.column("timestamp_type").cast(kind)

    def _timestamp(self, _: TopicAndPartition, records: pa.RecordBatch, __: pa.DataType) -> pa.Array:
        return in_microseconds(records.column("timestamp"))

    def _headers(self, _: TopicAndPartition, records: pa.RecordBatch, kind: pa.DataType) -> pa.Array:
        import pyarrow.compute as pc  # takes a while, and few want headers

        lists = records.column(HEADERS).cast(kind)
        return pc.if_else(pc.equal(pc.list_value_length(lists), 0), pa.scalar(None, kind), lists)


def _as_it_is(
    name: str,
) -> Callable[[SparkColumnMaker, TopicAndPartition, pa.RecordBatch, pa.DataType], pa.Array]:
    return lambda _, __, records, ___: records.column(name)


_MAKERS: dict[str, Callable[[SparkColumnMaker, TopicAndPartition, pa.RecordBatch, pa.DataType], pa.Array]] = {
    "key": _as_it_is("key"),
    "value": _as_it_is("value"),
    "topic": SparkColumnMaker._topic,
    "partition": SparkColumnMaker._partition,
    "offset": _as_it_is("offset"),
    "timestamp": SparkColumnMaker._timestamp,
    "timestampType": SparkColumnMaker._timestamp_type,
    HEADERS: SparkColumnMaker._headers,
}

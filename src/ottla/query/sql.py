"""SQL over topics: DuckDB reads scans of the topics that a SELECT names.

What the WHERE says about partition, offset, timestamp and key decides what is read; see `statements`. The
first record of a time is looked up by the brokers. The last one is only if timestamps are the broker's own
(message.timestamp.type): producers' timestamps may go back, and rows would be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

import pyarrow as pa

from ottla.admin import Admin, topic_resource
from ottla.consumer.partition.partition_config import PartitionConfig
from ottla.consumer.partition.replay import replay
from ottla.model.did_you_mean import hint
from ottla.model.errors import ConfigError, OttlaError
from ottla.model.property_table import merged
from ottla.query.cluster_tables import NAMES, cluster_table
from ottla.query.engine import MEMORY_LIMIT, Engine
from ottla.query.json_fields import quoted
from ottla.query.local_files import admin_properties, reader_properties
from ottla.query.record_view import VIEW_SCHEMA, sampled_columns, view_batch, view_columns
from ottla.query.scan import RecordFilter, Scan
from ottla.query.statements import Conditions, TableUse, table_uses
from ottla.query.topic_columns import TopicColumns
from ottla.schemas.json_texts import JsonTexts, json_texts_of
from ottla.schemas.registry import Schemas

BATCH_ROWS = 8192
CLUSTER = "cluster"


def sql(
    query: str,
    *,
    memory_limit: str = MEMORY_LIMIT,
    timeout: float | None = None,
    schemas: str | Schemas | None = None,
    properties: Mapping[str, object] | None = None,
    **settings: object,
) -> pa.Table:
    """Run a SELECT over topics, and return an Arrow table.

        >>> import ottla
        >>> ottla.sql(
        ...     "select key, count(*) as orders from orders group by key", bootstrap_servers="127.0.0.1:9092"
        ... ).num_rows
        1

    A topic is a table with partition, offset, timestamp, key, value, headers, raw_key, raw_value, and the
    fields of its values if they are JSON; with `schemas`, the URL of a schema registry or a directory with
    schemas, also of Avro and Protobuf. `cluster.topics`, `cluster.offsets`, `cluster.groups` and
    `cluster.lag` are tables too, without `cluster.` if no topic has that name. Needs the extra `sql`.
    `memory_limit` and `timeout` (seconds) bound the query; `settings` are Kafka's.

    Raises ConfigError for wrong SQL, RequestTimedOut, Unsupported without DuckDB, RegistryFailed, and what
    reading raises.
    """
    given = merged(properties, settings)
    with running(query, given, memory_limit=memory_limit, timeout=timeout, schemas=schemas) as (
        schema,
        batches,
    ):
        return pa.Table.from_batches(batches, schema)


@contextmanager
def running(
    query: str,
    properties: Mapping[str, object],
    *,
    memory_limit: str = MEMORY_LIMIT,
    timeout: float | None = None,
    schemas: str | Schemas | None = None,
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Run a SELECT; yields the schema and the batches of the result, as they arrive."""
    PartitionConfig.from_properties(
        reader_properties(properties)
    )  # raises for a wrong statement, before anything else
    with ExitStack() as opened:
        engine = opened.enter_context(Engine(memory_limit=memory_limit))
        uses = list(table_uses(engine.tree(query)))
        with Admin(admin_properties(properties)) as admin:
            unknown = _Tables(engine, admin, properties, opened, json_texts_of(schemas)).make(uses)
        opened.enter_context(engine.limited(timeout))
        try:
            reader = engine.reader(engine.with_offset_quoted(query), BATCH_ROWS)
        except ConfigError as error:
            raise ConfigError(f"{error}{unknown}") from error
        yield reader.schema, _batches(reader, engine, query)


def _batches(reader: pa.RecordBatchReader, engine: Engine, query: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except engine.error_types as error:
        raise engine.translated(error, query) from error


class _Tables:
    """Makes the tables that a query names."""

    def __init__(
        self,
        engine: Engine,
        admin: Admin,
        properties: Mapping[str, object],
        opened: ExitStack,
        json_texts: JsonTexts | None,
    ) -> None:
        self._engine = engine
        self._admin = admin
        self._properties = properties
        self._opened = opened
        self._json_texts = json_texts

    def make(self, uses: list[TableUse]) -> str:
        """Make those that are topics, or tables about the cluster; others are the query's own business.

        Returns what could have been meant by others.
        """
        topics = self._admin.list_topics() if any(use.schema in ("", CLUSTER) for use in uses) else ()
        counts = Counter((use.schema, use.name) for use in uses)
        self._engine.execute(f"create schema {CLUSTER}")
        for use in dict.fromkeys(uses):
            if use.schema == CLUSTER or (not use.schema and use.name.lower() in NAMES - set(topics)):
                self._make_cluster_table(use)
            elif not use.schema and use.name in topics:
                self._make_topic(use, is_repeated=counts[use.schema, use.name] > 1)
        return "".join(hint(use.name, topics) for use in uses if use.name not in topics)

    def _make_cluster_table(self, use: TableUse) -> None:
        name = use.name.lower()
        if name not in NAMES:
            raise ConfigError(f"{CLUSTER}.{use.name}: there is {', '.join(sorted(NAMES))}")
        source = f"{CLUSTER}_{name}"
        self._engine.register(source, cluster_table(name, self._admin))
        schema = f"{CLUSTER}." if use.schema else ""
        self._engine.execute(f"create or replace view {schema}{quoted(use.name)} as select * from {source}")

    def _make_topic(self, use: TableUse, *, is_repeated: bool) -> None:
        """Make the table of a topic.

        A stream can be read once, so a topic that is named twice is kept in memory.
        """
        columns = sampled_columns(use.name, self._properties, self._json_texts)
        wanted = Conditions()
        if not is_repeated:
            wanted = columns.conditions(use.where, self._engine.value)
        scan = self._scan(use.name, wanted)
        source = f"records of {use.name}"
        self._engine.register(source, pa.RecordBatchReader.from_batches(VIEW_SCHEMA, _viewed(scan, columns)))
        if is_repeated:
            kept = f"kept {use.name}"
            self._engine.execute(f"create temp table {quoted(kept)} as select * from {quoted(source)}")
            source = kept
        self._engine.execute(
            f"create temp view {quoted(use.name)} as select {view_columns(columns)} from {quoted(source)}"
        )

    def _scan(self, topic: str, wanted: Conditions) -> Scan:
        ranges = self._ranges(topic, wanted)
        given = {
            **reader_properties(self._properties),
            "include.headers": True,
            "auto.offset.reset": "earliest",
        }
        source = replay(
            topic,
            list(ranges),
            {number: start for number, (start, _) in ranges.items()},
            {number: stop for number, (_, stop) in ranges.items()},
            properties=given,
        )
        key = None if wanted.key is None else wanted.key.encode()
        scan = Scan(source, self._properties, RecordFilter(key, wanted.texts), None)
        return self._opened.enter_context(scan)

    def _ranges(self, topic: str, wanted: Conditions) -> dict[int, tuple[int, int]]:
        """Return the offsets to read, by partition: the first, and the one after the last."""
        first, end = (self._offsets(topic, at) for at in ("earliest", "latest"))
        since = self._at_time(topic, wanted.time_min)
        until = self._at_time(topic, wanted.time_max) if self._is_stamped_by_brokers(topic, wanted) else {}
        ranges = {}
        for number in sorted(end):
            if wanted.partitions is not None and number not in wanted.partitions:
                continue
            start = max(first[number], wanted.offset_min or 0, since.get(number, 0))
            stop = min(end[number], until.get(number, end[number]))
            if wanted.offset_max is not None:
                stop = min(stop, wanted.offset_max + 1)
            ranges[number] = (min(start, end[number]), max(stop, min(start, end[number])))
        return ranges

    def _offsets(self, topic: str, at: str | datetime) -> dict[int, int]:
        """Return the offset in each partition; the end where all records are older."""
        offsets = self._admin.list_offsets(topic, at)
        late = [part for part, offset in offsets.items() if offset.offset is None]
        ends = self._admin.list_offsets(late, "latest") if late else {}
        return {part.partition: (ends.get(part) or offset).offset or 0 for part, offset in offsets.items()}

    def _at_time(self, topic: str, expression: object) -> dict[int, int]:
        time_ms = self._engine.time_ms(expression) if isinstance(expression, dict) else None
        if time_ms is None:
            return {}
        try:
            return self._offsets(topic, datetime.fromtimestamp(max(0, time_ms) / 1000, UTC))
        except (ValueError, OverflowError, OSError):
            return {}

    def _is_stamped_by_brokers(self, topic: str, wanted: Conditions) -> bool:
        if wanted.time_max is None:
            return False
        try:
            entry = self._admin.describe_configs(topic_resource(topic)).get("message.timestamp.type")
        except OttlaError:
            return False
        return entry is not None and entry.value == "LogAppendTime"


def _viewed(scan: Scan, columns: TopicColumns) -> Iterator[pa.RecordBatch]:
    for batch in scan:
        number = batch.column("partition")[0].as_py()
        yield view_batch(number, batch, columns)

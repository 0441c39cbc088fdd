"""Scan: the records of a topic as Arrow, filtered while they are read.

    brokers say which offsets (times, too) ─▶ files of a local broker, or fetches ─▶ decode ─▶ filter ─▶ Arrow

A filter by key or text looks at the columns' bytes (`needles`) before anything else is made of them. A filter
in SQL (`where`) sees only what these have left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ottla.consumer.partition.replay import PARTITION, Progress, Replay, replay
from ottla.consumer.partition.replay_bounds import ReplayBound
from ottla.consumer.reading.offset_ranges import OffsetRange
from ottla.log.segments_on_disk import BLOCK_BYTES, partitions_in, records_of
from ottla.model.closing import Closing
from ottla.model.errors import ConfigError
from ottla.model.property_table import merged, snake
from ottla.query.local_files import partition_directories, reader_properties
from ottla.query.needles import rows_containing, rows_equal

if TYPE_CHECKING:
    from ottla.query.where import Where
    from ottla.schemas.registry import Schemas


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """The condition for records: a key, and for each group of texts one that is in the value."""

    key: bytes | None = None
    texts: tuple[tuple[bytes, ...], ...] = ()

    def rows(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records that meet the condition."""
        if self.key is not None:
            records = _taken(records, rows_equal(records.column("key"), self.key))
        for texts in self.texts:
            if not records.num_rows:
                break
            records = _taken(records, rows_containing(records.column("value"), texts))
        return records


@dataclass(slots=True)
class _Counts:
    """The progress of a scan. `records`: how many passed the filters."""

    records: int = 0
    offsets: dict[int, int] = field(default_factory=dict)


class Scan(Closing):
    """Made by `scan`. Read once, by one thread: as batches, as a table, or by anything that reads Arrow.

    >>> import ottla
    >>> with ottla.scan("orders", contains="coffee", bootstrap_servers="127.0.0.1:9092") as orders:
    ...     orders.to_table().column("offset").to_pylist()
    [1]
    """

    def __init__(
        self, source: Replay, properties: Mapping[str, object], wanted: RecordFilter, where: Where | None
    ) -> None:
        self._source = source
        self._properties = properties
        self._wanted = wanted
        self._where = where
        self._counts = _Counts()
        self._is_closed = False
        self.is_local = False

    def __repr__(self) -> str:
        closed = "closed, " if self._is_closed else ""
        return f"<Scan of {self._source.topic!r}: {closed}{self._counts.records} records found>"

    @property
    def schema(self) -> pa.Schema:
        """partition, offset, timestamp, timestamp_type, key, value; headers if they are wanted."""
        return self._source.schema

    @property
    def ranges(self) -> dict[int, OffsetRange]:
        """The offsets of each partition that are read; asks the brokers if they are not known yet."""
        return self._source.ranges

    @property
    def progress(self) -> Progress:
        """How many records passed the filters, how many offsets were looked at, and how many there are."""
        if not self.is_local:
            behind = self._source.progress
            return Progress(self._counts.records, behind.offsets, behind.offsets_total)
        ranges = self._source.ranges
        done = sum(at - ranges[number].start for number, at in self._counts.offsets.items())
        total = sum(wanted.stop - wanted.start for wanted in ranges.values())
        return Progress(self._counts.records, done, total)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Iterate over Arrow batches with the columns of `schema`, as they are found.

        Raises what stops a partition, as `Replay.chunks` does.
        """
        return (batch for batch in self.steps() if batch.num_rows)

    def steps(self) -> Iterator[pa.RecordBatch]:
        """Iterate over batches, including those without rows: one for each part that was looked at."""
        try:
            for number, records in self._records():
                left = self._wanted.rows(records)
                if self._where is not None and left.num_rows:
                    left = _taken(left, self._where.rows(number, left))
                self._counts.records += left.num_rows
                yield _with_partition(number, left, self.schema)
        finally:
            self.close()

    def to_table(self) -> pa.Table:
        """Read everything into a table."""
        return pa.Table.from_batches(self, self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """A reader for libraries that take Arrow streams."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Arrow's PyCapsule interface: Polars, DuckDB and pandas take the scan itself."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """End it, from any thread. May be called twice."""
        self._is_closed = True
        self._source.close()

    # --- where records come from

    def _records(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        directories = self._directories()
        if not directories:
            for chunk in self._source.chunks():
                yield chunk.topic_partition.partition, chunk.batch
            return
        self.is_local = True
        has_headers = "headers" in self.schema.names
        for number, wanted in self._source.ranges.items():
            if wanted.start >= wanted.stop:
                continue  # a partition without records may have no files
            (partition,) = partitions_in([directories[number]])
            for piece in partition.pieces(wanted.start, wanted.stop, BLOCK_BYTES):
                for records in records_of(piece, has_headers=has_headers):
                    if self._is_closed:
                        return
                    yield number, records
                    self._counts.offsets[number] = records.column("offset")[-1].as_py() + 1
            self._counts.offsets[number] = wanted.stop

    def _directories(self) -> dict[int, str]:
        """Where all partitions are on this machine; empty if one is not.

        Only brokers know which transactions are open. (They tell of directories since 1.0, and of times
        since 0.10.1, so that the ranges are exact.)
        """
        isolation = {snake(name): value for name, value in self._properties.items()}.get("isolation_level")
        if isolation not in (None, "read_uncommitted"):
            return {}
        directories = partition_directories(self._properties, self._source.topic)
        wanted = self._source.ranges
        numbers = {
            part.partition: str(path) for part, path in directories.items() if part.partition in wanted
        }
        return numbers if numbers.keys() == wanted.keys() else {}


def scan(
    topic: str,
    partitions: Iterable[int] | None = None,
    since: ReplayBound = "earliest",
    until: ReplayBound = "latest",
    *,
    key: str | bytes | None = None,
    contains: str | bytes | None = None,
    where: str | None = None,
    headers: bool = False,
    schemas: str | Schemas | None = None,
    properties: Mapping[str, object] | None = None,
    **settings: object,
) -> Scan:
    """Read a topic, or a part of it, as Arrow, and keep only the records that are wanted.

    `since` and `until` are offsets, times or "earliest" and "latest", as for `replay`; the end is where the
    log ends now. `key` is the whole key, `contains` a part of the value, `where` a condition in SQL over
    partition, offset, timestamp, key, value and the fields of values (it needs the extra `sql`): of JSON, and
    with `schemas`, the URL of a schema registry or a directory with schemas, of Avro and Protobuf.
    `settings` are Kafka's, such as bootstrap_servers. Files are read directly if the brokers run on this
    machine, unless isolation.level is read_committed.

        >>> import ottla
        >>> with ottla.scan("orders", since=1, bootstrap_servers="127.0.0.1:9092") as orders:
        ...     orders.to_table().num_rows
        2

    Raises ConfigError for wrong arguments, KafkaError if there is no such topic.
    """
    given = merged(properties, settings)
    given = {name: value for name, value in given.items() if snake(name) != "include_headers"}
    wanted = RecordFilter(
        None if key is None else _bytes("key", key),
        () if contains is None else ((_bytes("contains", contains),),),
    )
    condition = None
    if where is not None:
        from ottla.query.where import Where  # DuckDB is an extra
        from ottla.schemas.json_texts import json_texts_of

        condition = Where(where, topic, given, json_texts_of(schemas))
        wanted = RecordFilter(wanted.key, (*wanted.texts, *condition.texts))
    source = replay(
        topic, partitions, since, until, properties={**reader_properties(given), "include.headers": headers}
    )
    return Scan(source, given, wanted, condition)


def _bytes(name: str, value: str | bytes) -> bytes:
    if not isinstance(value, str | bytes):
        raise ConfigError(f"{name}={value!r:.100}: give text or bytes")
    return value.encode() if isinstance(value, str) else value


def _taken(records: pa.RecordBatch, rows: Any) -> pa.RecordBatch:
    return records if len(rows) == records.num_rows else records.take(pa.array(rows))


def _with_partition(number: int, records: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    column = pa.array(np.full(records.num_rows, number, np.int32), PARTITION.type)
    return pa.RecordBatch.from_arrays([column, *records.columns], schema=schema)

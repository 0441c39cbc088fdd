"""Tables of raw records, filled batch by batch by `lander`: landed files, Delta and Iceberg. Needs no Spark.

A batch is written to hidden files, and its commit says which records it has. A table knows where it continues
(`ends`), and which records an earlier writer has promised and not written (`promised`).
"""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.iceberg import DATA, IcebergTable
from ottla.spark.landing_files import LandingFile, is_there, landed
from ottla.spark.locations import OWN, check_promises, location
from ottla.spark.offset_json import Offsets, from_spark, to_spark
from ottla.spark.parquet_file import RawParquetFile
from ottla.spark.pipeline.sink_form import SinkForm, SinkFormat
from ottla.spark.pipeline.spans import Spans, from_json, to_json
from ottla.spark.pipeline.tables import TableBatch
from ottla.spark.range_planner import TaskRange

COMPACT_AFTER = 16
_BINARY, _HEADER = pa.binary(), pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA = pa.schema(
    [
        ("key", _BINARY),
        ("value", _BINARY),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(_HEADER)),
    ]
)
"""The columns of Spark's Kafka schema."""


_UNMEASURED = {
    f"write.metadata.metrics.column.{name}": "none"
    for name in ("value", "headers.element.key", "headers.element.value")
}
"""Readers never use the minimum and maximum of these columns."""


TIME = "timestamp"
_RANGED = {"topic", "partition", "offset", TIME}


class RawTable(Protocol):
    """A table that is filled. For one thread."""

    schema: pa.Schema

    def ends(self, wanted: Iterable[TopicAndPartition]) -> Offsets:
        """Return where the table goes on, of each of these partitions that it knows: after the last record
        that it has, or where the partition begins.
        """

    def begin(self, starts: Offsets) -> None:
        """Note where partitions begin that the table does not know."""

    def promised(self) -> Spans:
        """Return the records that have to be written first, as one batch of exactly these."""

    def add(self, topic_partition: TopicAndPartition, start: int, rows: pa.RecordBatch) -> None:
        """Take rows of the batch; `start` is where the partition begins in it."""

    def commit(self, spans: Spans) -> None:
        """Make the batch part of the table, with these records.

        Raises ConfigError if another writer was faster.
        """

    def abandon(self) -> None:
        """Forget the batch."""


def raw_table(kind: str, url: str, options: Mapping[str, str], *, has_headers: bool) -> RawTable:
    """The table of a URL. Raises ConfigError."""
    if url:
        check_promises(location(url))
    schema = SCHEMA if has_headers else SCHEMA.remove(SCHEMA.get_field_index("headers"))
    if kind == SinkFormat.ICEBERG:
        return IcebergRaw(IcebergTable(url, options, properties=_UNMEASURED), schema)
    if options or not url:
        raise ConfigError(f"format={kind} needs a location, and has no options")
    return DeltaRaw(url, schema) if kind == SinkFormat.DELTA else LandedRaw(url, schema)


class LandedRaw:
    """Parquet files whose names say which offsets they hold, as landing in Spark writes them.

    Before its files appear, a batch's offsets are written to PATH/_ottla/land.json, which is replaced only if
    no other writer has changed it. So a writer that was overtaken ends there, and what a killed writer has
    promised is written by the next one, into files of the same names.
    """

    _PROMISE = f"{OWN}/land.json"

    def __init__(self, url: str, schema: pa.Schema) -> None:
        self.schema = pa.schema([field for field in schema if field.name not in ("topic", "partition")])
        self._where = location(url)
        self._files: dict[TopicAndPartition, LandingFile] = {}
        stored = self._where.read(self._PROMISE)
        self._version = stored and stored.version
        there = json.loads(stored.content) if stored else {}
        self._last = from_json(there.get("offsets", {}))
        self._starts = from_spark(there.get("starts", {}))
        self._promise(self._last)  # earlier writers end at their next promise

    def _promise(self, spans: Spans) -> None:
        starts = to_spark(self._starts)
        content = json.dumps(
            {"offsets": to_json(spans), "starts": starts, "writer": uuid.uuid4().hex}
        ).encode()
        with self._where.lock():
            self._where.replace(self._PROMISE, content, self._version)
            stored = self._where.read(self._PROMISE)
        if stored is None or stored.content != content:
            raise ConfigError(f"{self._where.url}: another writer lands records here; run one, or run again")
        self._version, self._last = stored.version, spans

    def ends(self, wanted: Iterable[TopicAndPartition]) -> Offsets:
        """Return where each partition goes on."""
        ends = {
            topic_partition: files[-1].end if files else self._starts.get(topic_partition)
            for topic_partition in wanted
            for files in [landed(self._where, topic_partition)]
        }
        return {topic_partition: end for topic_partition, end in ends.items() if end is not None}

    def begin(self, starts: Offsets) -> None:
        """Note where partitions begin."""
        self._starts = starts | self._starts
        self._promise(self._last)

    def promised(self) -> Spans:
        """The batch whose files a killed writer has not written, or not all of them."""
        return {
            topic_partition: [(start, end)]
            for topic_partition, ((start, end),) in self._last.items()
            if not is_there(landed(self._where, topic_partition), TaskRange(topic_partition, start, end))
        }

    def add(self, topic_partition: TopicAndPartition, start: int, rows: pa.RecordBatch) -> None:
        """Take rows of the batch."""
        file = self._files.get(topic_partition)
        if file is None:
            file = LandingFile(self._where, TaskRange(topic_partition, start, start), self.schema, "snappy")
            self._files[topic_partition] = file
        file.add(rows)

    def commit(self, spans: Spans) -> None:
        """Promise the batch, and let its files appear."""
        if spans != self._last:
            self._promise(spans)
        for topic_partition, file in self._files.items():
            file.end_at(spans[topic_partition][-1][1])
            file.finish(replaces=False)
        self._files = {}

    def abandon(self) -> None:
        """Forget the batch."""
        for file in self._files.values():
            file.abandon()
        self._files = {}


class _OneFile(ABC):
    """A table whose commits are all or nothing, and add one data file each."""

    schema: pa.Schema

    def __init__(self) -> None:
        self._file: _DataFile | None = None

    def promised(self) -> Spans:
        """Return nothing: a commit is all or nothing."""
        return {}

    def add(self, topic_partition: TopicAndPartition, start: int, rows: pa.RecordBatch) -> None:  # noqa: ARG002
        """Take rows of the batch."""
        if self._file is None:
            self._file = self._new_file()
        self._file.add(rows)

    @abstractmethod
    def _new_file(self) -> _DataFile:
        """Return the data file of the next commit."""

    def _put(self) -> _PutFile:
        """Let the file appear, which is no part of the table yet."""
        assert self._file is not None
        put = self._file.put()
        self._file = None
        return put

    def abandon(self) -> None:
        """Forget the batch."""
        if self._file is not None:
            self._file.abandon()
            self._file = None


class DeltaRaw(_OneFile):
    """A Delta table with the columns of raw records."""

    _WRITER = "ottla-land"

    def __init__(self, url: str, schema: pa.Schema) -> None:
        from ottla.spark.pipeline.delta import DeltaLakeTable

        super().__init__()
        self.schema = schema
        self._url = url
        self._table = DeltaLakeTable(SinkForm(SinkFormat.DELTA, url, compact_after=COMPACT_AFTER))

    def ends(self, wanted: Iterable[TopicAndPartition]) -> Offsets:
        """Return where each partition goes on."""
        return self._table.ends(wanted)

    def begin(self, starts: Offsets) -> None:
        """Note where partitions begin."""
        self._table.prepare(self.schema)
        self._table.begin(starts)

    def _new_file(self) -> _DataFile:
        self._table.prepare(self.schema)
        return _DataFile(self._url, self.schema)

    def commit(self, spans: Spans) -> None:
        """Put the file, and add it to the table."""
        put = self._put()
        batch = TableBatch(self._WRITER, self._table.last_batch(self._WRITER) + 1, spans)
        self._table.add_file(put.path, put.nbytes, json.dumps(statistics(put.metadata)), batch)


class IcebergRaw(_OneFile):
    """An Iceberg table with the columns of raw records."""

    def __init__(self, table: IcebergTable, schema: pa.Schema) -> None:
        super().__init__()
        self.schema = schema
        self._table = table
        self._commits = 0

    def ends(self, wanted: Iterable[TopicAndPartition]) -> Offsets:
        """Return where each partition goes on."""
        return self._table.ends(wanted)

    def begin(self, starts: Offsets) -> None:
        """Note where partitions begin."""
        self._table.prepared(self.schema)
        self._table.begin(starts)

    def _new_file(self) -> _DataFile:
        return _DataFile(*self._table.prepared(self.schema))

    def commit(self, spans: Spans) -> None:
        """Put the file, and add it to the table."""
        self._table.add([self._put().path], spans)
        self._commits += 1
        if self._commits % COMPACT_AFTER == 0:
            self._table.compact(COMPACT_AFTER)


class _PutFile(NamedTuple):
    """A data file that is there."""

    path: str
    nbytes: int
    metadata: pq.FileMetaData


class _DataFile:
    """A data file of a table that is being written."""

    def __init__(self, url: str, schema: pa.Schema) -> None:
        self._where = location(url)
        self._path = f"{DATA}/{uuid.uuid4().hex}.parquet"
        self._file = RawParquetFile(self._where.scratch(self._path), schema, "snappy")

    def add(self, rows: pa.RecordBatch) -> None:
        self._file.add(rows)

    def put(self) -> _PutFile:
        nbytes = self._file.close()
        metadata = pq.read_metadata(self._file.path)
        self._where.put(self._path, self._file.path)
        return _PutFile(self._path, nbytes, metadata)

    def abandon(self) -> None:
        self._file.abandon()


def statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Return what readers of Delta skip a file by: its rows, and the range of the columns that are known."""
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            name, known = column.path_in_schema, column.statistics
            if name in _RANGED and known is not None and known.has_min_max:
                least, most = (known.min_raw, known.max_raw) if name == TIME else (known.min, known.max)
                lowest[name] = min(least, lowest.get(name, least))
                highest[name] = max(most, highest.get(name, most))
    if TIME in lowest:
        try:
            lowest[TIME], highest[TIME] = _in_ms(lowest[TIME]), _in_ms(highest[TIME] + 999)
        except OverflowError:  # after the year 9999: a producer has counted microseconds, or nanoseconds
            del lowest[TIME], highest[TIME]
    return {"numRecords": metadata.num_rows, "minValues": lowest, "maxValues": highest}


def _in_ms(microseconds: int) -> str:
    """Return a time as Delta has it in statistics, with milliseconds. Raises OverflowError."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    return moment.isoformat(timespec="milliseconds")

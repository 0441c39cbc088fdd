"""The sink: rows of a DataFrame → records, through a producer that each worker process keeps.

Columns are those of Spark's own connector: value, and optionally key, topic, partition and headers; and
timestamp, which is an addition. Others are ignored. A task is done when all of its records are acknowledged.
Within a task, sends are idempotent; a task that is tried again writes its rows again (see `row_identity`).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from ottla.model.errors import ConfigError
from ottla.producer import Producer
from ottla.producer.producer_config import ProducerConfig
from ottla.records.columns import HEADER, HEADERS
from ottla.spark.options import SINK_OPTIONS, client_properties, parse_options
from ottla.spark.range_reader import settle_in
from ottla.spark.row_identity import TaskIdentity, partitioned_by_identity, with_identity

log = logging.getLogger(__name__)

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
_TEXT_OR_BYTES = (StringType, BinaryType)
_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "topic": (StringType,),
    "partition": (IntegerType,),
    "headers": (ArrayType,),
    "timestamp": (TimestampType,),
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Checked options; they travel to the executors with the writer. `columns` are those that are written."""

    topic: str
    properties: tuple[tuple[str, object], ...]
    has_identity: bool
    columns: tuple[str, ...]


def sink_options(options: Mapping[str, str], schema: StructType) -> SinkOptions:
    """Parse and check, also against the DataFrame's columns. Raises ConfigError."""
    given = parse_options(SINK_OPTIONS, options)
    properties = client_properties(given.kafka)
    ProducerConfig.from_properties(properties)  # raises for what is wrong, here and not in the executors
    topic = given.values["topic"]
    columns = tuple(field.name for field in schema.fields if field.name in _TYPES)
    for field in schema.fields:
        if field.name in _TYPES and not isinstance(field.dataType, _TYPES[field.name]):
            right = " or ".join(kind().simpleString() for kind in _TYPES[field.name] if kind is not ArrayType)
            type_name = field.dataType.simpleString()
            wanted = right or "array<struct<key:string,value:binary>>"
            raise ConfigError(f"column {field.name} is {type_name}: {wanted} is wanted; cast it")
    if "value" not in columns:
        raise ConfigError(f"there is no column value; there are {', '.join(schema.fieldNames())}: rename one")
    if not topic and "topic" not in columns:
        raise ConfigError("no topic: set the option topic, or add a column topic")
    return SinkOptions(topic, tuple(sorted(properties.items())), given.values["rowIdentity"], columns)


@dataclass
class TaskWritten(WriterCommitMessage):
    """What a task reports to the driver."""

    rows: int


class TopicWriter(DataSourceArrowWriter):
    """df.write.format("ottla")"""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._job = uuid.uuid4().hex  # the tasks of one write have it in common

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In an executor."""
        return _write(iterator, self._options, self._job, 0)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks are done."""
        rows = sum(message.rows for message in messages if isinstance(message, TaskWritten))
        log.info("%d rows are written by %d tasks", rows, len(messages))


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """df.writeStream.format("ottla")"""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In an executor."""
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY_ID) if context is not None else None
        batch = context.getLocalProperty(BATCH_ID) if context is not None else None
        return _write(iterator, self._options, query or "", int(batch or 0))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, when all tasks of a batch are done."""
        rows = sum(message.rows for message in messages if isinstance(message, TaskWritten))
        log.info("batch %d: %d rows are written by %d tasks", batchId, rows, len(messages))


def _write(batches: Iterable[pa.RecordBatch], options: SinkOptions, query: str, epoch: int) -> TaskWritten:
    settle_in()
    context = TaskContext.get()
    identity = TaskIdentity(query, epoch, context.partitionId() if context is not None else 0)
    return TaskWritten(send_rows(batches, options, identity))


# --- in the executors

_kept: dict[SinkOptions, Producer] = {}


def send_rows(batches: Iterable[pa.RecordBatch], options: SinkOptions, task: TaskIdentity) -> int:
    """Send all rows, wait until they are acknowledged, and return their number.

    Raises why a record failed.
    """
    rows = 0
    producer = _producer_of(options)
    try:
        for batch in batches:
            columns = records_of(batch, options, task, rows)
            for topic, part in by_topic(batch, columns, options):
                producer.send_batch(topic, part)
            rows += batch.num_rows
        producer.flush()
    except BaseException:
        # What it still has to send belongs to a task that has failed, and will be sent again.
        _kept.pop(options, None)
        _abandon(producer)
        raise
    return rows


def _producer_of(options: SinkOptions) -> Producer:
    if options not in _kept:
        close_producer()
        partitioner = partitioned_by_identity if options.has_identity else None
        _kept[options] = Producer(dict(options.properties), column_partitioner=partitioner)
    return _kept[options]


def close_producer() -> None:
    """Close the worker's producer, if there is one."""
    while _kept:
        _kept.popitem()[1].close()


def _abandon(producer: Producer) -> None:
    try:
        producer.close(timeout=0)
    except Exception as error:  # noqa: BLE001 - the task's own error is the one to see
        log.info("a producer was closed after a failure: %s", error)


def records_of(batch: pa.RecordBatch, options: SinkOptions, task: TaskIdentity, first: int) -> pa.RecordBatch:
    """The columns for the producer; `first` is the number of the batch's first row within its task."""
    arrays = {name: batch.column(name) for name in options.columns if name not in {"topic", "headers"}}
    headers = _headers(batch.column("headers")) if "headers" in options.columns else None
    if options.has_identity:
        headers = with_identity(headers, task, first, batch.num_rows)
    if headers is not None:
        arrays["headers"] = headers
    return pa.record_batch(arrays)


def _headers(given: pa.Array) -> pa.Array:
    """Spark's header lists in the producer's type. Raises ConfigError for a header without a key."""
    pairs = given.flatten()
    keys, values = pairs.field(0), pairs.field(1)
    if keys.null_count:
        raise ConfigError("column headers: a header has no key; give it one")
    lengths = pc.fill_null(pc.list_value_length(given), 0)
    bounds = pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())
    structs = pa.StructArray.from_arrays([keys, values.cast(pa.binary())], fields=list(HEADER))
    return pa.ListArray.from_arrays(pa.concat_arrays(bounds), structs, type=HEADERS)


def by_topic(
    batch: pa.RecordBatch, columns: pa.RecordBatch, options: SinkOptions
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows grouped by topic; rows of one topic stay in order."""
    if options.topic:
        yield options.topic, columns
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ConfigError("column topic is null in a row: set it everywhere, or set the option topic")
    names = topics.unique().to_pylist()
    for name in names:
        yield name, columns if len(names) == 1 else columns.filter(pc.equal(topics, name))

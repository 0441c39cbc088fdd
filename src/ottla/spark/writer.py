"""The sink: rows of a DataFrame → records, through a producer that each worker process keeps.

Columns are those of Spark's own connector: value, and optionally key, topic, partition and headers; and
timestamp with the option includeTimestamp. Others are ignored. A task is done when all of its records are
acknowledged. Within a task, sends are idempotent; a task that is tried again writes its rows again (see
`row_identity`), unless they are written in transactions (see `exactly_once`).
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
    StructField,
    StructType,
    TimestampType,
)

from ottla.model.errors import ConfigError
from ottla.producer import PreparedTransaction, Producer
from ottla.producer.producer_config import ProducerConfig
from ottla.records.columns import HEADER, HEADERS
from ottla.spark.exactly_once.settings import ExactlyOnce, exactly_once
from ottla.spark.exactly_once.write_driver import WriteDriver, WritePlan
from ottla.spark.exactly_once.write_tasks import close_producers, prepare
from ottla.spark.options import SINK_OPTIONS, WITHOUT_EFFECT_IN_SINKS, client_properties, parse_options
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
_HEADERS = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Checked options; they travel to the executors with the writer. `columns` are those that are written."""

    topic: str
    properties: tuple[tuple[str, object], ...]
    has_identity: bool
    columns: tuple[str, ...]
    write_id: str = ""
    batch: int = 0
    exactly_once: ExactlyOnce | None = None

    @property
    def driver(self) -> WriteDriver:
        """The driver's part of a write in transactions."""
        assert self.exactly_once is not None
        return WriteDriver(self.exactly_once, dict(self.properties))


def sink_options(options: Mapping[str, str], schema: StructType, *, is_stream: bool = False) -> SinkOptions:
    """Parse and check, also against the DataFrame's columns. Raises ConfigError."""
    given = parse_options(SINK_OPTIONS, options)
    properties = client_properties(given.kafka, WITHOUT_EFFECT_IN_SINKS)
    once = exactly_once(given, properties, is_stream=is_stream)
    own = {"transactional.id": once.prefix} if once is not None else {}
    ProducerConfig.from_properties({**properties, **own})  # raises here, and not in the executors
    topic = given.values["topic"]
    known = _TYPES.keys() - (set() if given.values["includeTimestamp"] else {"timestamp"})
    written = [field for field in schema.fields if field.name in known]
    columns = tuple(field.name for field in written)
    for field in written:
        _check_type(field)
    if "value" not in columns:
        raise ConfigError(f"there is no column value; there are {', '.join(schema.fieldNames())}: rename one")
    if not topic and "topic" not in columns:
        raise ConfigError("no topic: set the option topic, or add a column topic")
    return SinkOptions(
        topic,
        tuple(sorted(properties.items())),
        given.values["rowIdentity"],
        columns,
        given.values["writeId"],
        given.values["batchId"],
        once,
    )


def _check_type(field: StructField) -> None:
    type_name = field.dataType.simpleString()
    if field.name == "headers":
        is_right, wanted = type_name == _HEADERS, _HEADERS
    else:
        is_right = isinstance(field.dataType, _TYPES[field.name])
        wanted = " or ".join(kind().simpleString() for kind in _TYPES[field.name])
    if not is_right:
        raise ConfigError(f"column {field.name} is {type_name}: {wanted} is wanted; cast it")


@dataclass
class TaskWritten(WriterCommitMessage):
    """What a task reports to the driver. The fields after `rows` are for a write in transactions."""

    rows: int
    query: str = ""
    plan: WritePlan | None = None
    prepared: PreparedTransaction | None = None


Messages = Sequence[WriterCommitMessage | None]


class _PlannedWriter:
    """Plans transactions when Spark pickles the writer: that happens once, when it plans the write."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._plan: WritePlan | None = None

    def __getstate__(self) -> dict[str, object]:
        if self._options.exactly_once is not None and self._plan is None:
            self._plan = self._options.driver.plan()
        return self.__dict__

    def _written(self, batches: Iterable[pa.RecordBatch], query: str, epoch: int) -> TaskWritten:
        """Write the rows of a task, in an executor."""
        settle_in()
        context = TaskContext.get()
        task = TaskIdentity(query, epoch, context.partitionId() if context is not None else 0)
        options, plan = self._options, self._plan
        if plan is None:
            return TaskWritten(send_rows(batches, options, task), query)
        if plan.is_decided(query, epoch):
            return TaskWritten(0, query, plan)
        rows, prepared = prepare(
            plan,
            lambda name: _producer(options, {"transactional.id": name}),
            lambda producer: _sent(producer, batches, options, task),
        )
        return TaskWritten(rows, query, plan, prepared)

    def _commit(self, messages: Messages, batch: int) -> None:
        """Commit, on the driver, when all tasks are done."""
        written = [message for message in messages if isinstance(message, TaskWritten)]
        if self._options.exactly_once is not None and written:
            plan, query = written[0].plan, written[0].query
            assert plan is not None
            self._options.driver.commit(plan, query, batch, _prepared(written))
        rows = sum(message.rows for message in written)
        log.info("batch %d: %d rows are written by %d tasks", batch, rows, len(messages))

    def _abort(self, messages: Messages) -> None:
        """Abort, on the driver, if a task has failed for good."""
        if self._options.exactly_once is not None:
            self._options.driver.abort(_prepared(messages))


def _prepared(messages: Iterable[WriterCommitMessage | None]) -> list[PreparedTransaction]:
    return [
        message.prepared
        for message in messages
        if isinstance(message, TaskWritten) and message.prepared is not None
    ]


class TopicWriter(_PlannedWriter, DataSourceArrowWriter):
    """df.write.format("ottla")"""

    def __init__(self, options: SinkOptions) -> None:
        super().__init__(options)
        # shared by the tasks of one write
        self._job = options.write_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, in an executor."""
        return self._written(iterator, self._job, self._options.batch)

    def commit(self, messages: Messages) -> None:
        """Commit, on the driver, when all tasks are done."""
        self._commit(messages, self._options.batch)

    def abort(self, messages: Messages) -> None:
        """Abort, on the driver, if a task has failed for good."""
        self._abort(messages)


class TopicStreamWriter(_PlannedWriter, DataSourceStreamArrowWriter):
    """df.writeStream.format("ottla")"""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, in an executor."""
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY_ID) if context is not None else None
        batch = context.getLocalProperty(BATCH_ID) if context is not None else None
        if self._plan is not None and (not query or batch is None):
            raise ConfigError("exactlyOnce: Spark does not say which batch of which query this is")
        return self._written(iterator, query or "", int(batch or 0))

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """Commit a batch, on the driver, when all its tasks are done."""
        self._commit(messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803
        """Abort a batch, on the driver, if a task has failed for good."""
        self._abort(messages)


# --- in the executors

_kept: dict[tuple[object, bool], Producer] = {}


def send_rows(batches: Iterable[pa.RecordBatch], options: SinkOptions, task: TaskIdentity) -> int:
    """Send all rows, wait until they are acknowledged, and return their number.

    Raises why a record failed.
    """
    producer = _producer_of(options)
    try:
        rows = _sent(producer, batches, options, task)
        producer.flush()
    except BaseException:
        # Its unsent rows belong to a task that has failed; Spark will run it again.
        _kept.pop(_key(options), None)
        _abandon(producer)
        raise
    return rows


def _sent(
    producer: Producer, batches: Iterable[pa.RecordBatch], options: SinkOptions, task: TaskIdentity
) -> int:
    """Hand in all rows, and return their number."""
    rows = 0
    for batch in batches:
        columns = records_of(batch, options, task, rows)
        for topic, part in by_topic(batch, columns, options):
            producer.send_batch(topic, part)
        rows += batch.num_rows
    return rows


def _producer(options: SinkOptions, more: Mapping[str, object]) -> Producer:
    partitioner = partitioned_by_identity if options.has_identity else None
    return Producer({**dict(options.properties), **more}, column_partitioner=partitioner)


def _producer_of(options: SinkOptions) -> Producer:
    key = _key(options)
    if key not in _kept:
        close_producer()
        _kept[key] = _producer(options, {})
    return _kept[key]


def _key(options: SinkOptions) -> tuple[object, bool]:
    return options.properties, options.has_identity


def close_producer() -> None:
    """Close the worker's producers, if there are any."""
    close_producers()
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

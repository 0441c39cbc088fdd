"""Checks of a pipeline before it starts: without Spark where that is enough.

Nothing is written, no topic is created, and no query is started.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from ottla.client.client_config import CLIENT_PROPERTIES, FOREIGN_PROPERTIES, ClientConfig
from ottla.model.did_you_mean import hint
from ottla.model.errors import ConfigError, OttlaError
from ottla.model.permissions import Operation
from ottla.model.property_table import parse_properties
from ottla.producer.producer_config import PRODUCER_PROPERTIES
from ottla.spark.causes import cause
from ottla.spark.cluster import SparkCluster
from ottla.spark.iceberg import IcebergTable
from ottla.spark.locations import OWN, Directory, check_promises, location
from ottla.spark.options import SINK_OPTIONS, WITHOUT_EFFECT_IN_SINKS, client_properties, parse_options
from ottla.spark.pipeline import offsets
from ottla.spark.pipeline.decode_form import Decode, Decoding
from ottla.spark.pipeline.decoding import decoder_of, schemas_now
from ottla.spark.pipeline.delta import DeltaLakeTable
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.functions import loaded
from ottla.spark.pipeline.guarantee import topic_options
from ottla.spark.pipeline.reading import nothing, nothing_streamed, ranges
from ottla.spark.pipeline.sink_form import TABLES, SinkForm, SinkFormat
from ottla.spark.pipeline.sinks import as_records
from ottla.spark.pipeline.source_form import SourceForm
from ottla.spark.pipeline.spans import Spans
from ottla.spark.pipeline.state import PipelineState
from ottla.spark.pipeline.steps import results_of, rows_of, steps_of
from ottla.spark.pipeline.windows import aggregated, keys_of, output_mode
from ottla.spark.positions import Topics
from ottla.spark.session import is_remote
from ottla.spark.source_options import Mode, source_options
from ottla.spark.table_columns import optional
from ottla.spark.writer import sink_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLED_RECORDS = 100


class Analysed(NamedTuple):
    """What Spark says about the steps: a schema for each, example rows, and what is wrong."""

    schemas: list[tuple[str, str]]
    rows: list[Any]
    problems: list[str]


# --- without Spark


def problems(form: PipelineForm, state: PipelineState | None) -> list[str]:
    """A line for everything that is wrong and can be known without Spark."""
    return [
        *(line for source in form.sources for line in _problems_of(partial(_check_topics, source))),
        *_problems_of(lambda: offsets.check_apart(form.source_options)),
        *_problems_of(lambda: _check_files(form)),
        *(line for decode in _decodes(form) for line in _problems_of(partial(_check_schema, decode))),
        *(line for name in _functions(form) for line in _problems_of(partial(loaded, name))),
        *(line for path in _locations(form, state) for line in _problems_of(partial(check_writable, path))),
        *(line for sink in form.sinks for line in _problems_of(partial(_check_catalog, sink))),
        *(line for sink in _topic_sinks(form) for line in _problems_of(partial(_check_exists, form, sink))),
    ]


def check_sinks(form: PipelineForm) -> None:
    """Raise ConfigError if a store cannot hold a table, or a topic does not exist and will not be created."""
    for table in (*form.sinks, form.dead_letters):
        if table is not None and table.path:
            check_promises(location(table.path))
    for sink in _topic_sinks(form):
        _check_exists(form, sink, creates=True)


def _problems_of(check: Callable[[], object]) -> list[str]:
    try:
        check()
    except OttlaError as error:
        return [str(error)]
    return []


def _functions(form: PipelineForm) -> list[str]:
    return [name for name in (form.transform.arrow, form.transform.python) if name]


def _check_topics(source: SourceForm) -> None:
    options = source_options(source.options, Mode.STREAM)
    cluster = SparkCluster(options.client, isolation_level=options.fetch.isolation_level)
    try:
        partitions = cluster.partitions(options.subscription)
        cluster.check_all_exist(options.subscription, partitions)
        forbidden = cluster.forbidden(partitions, Operation.READ)
    finally:
        cluster.close()
    if not partitions:
        raise ConfigError(f"{source.section} no topic matches {source.options.get('subscribePattern', '')}")
    unmatched = source.unmatched(partition.topic for partition in partitions)
    if unmatched:
        raise ConfigError(f"{source.section} no topic matches {', '.join(unmatched)}")
    if forbidden:
        raise ConfigError(f"{source.section} this user may not read {', '.join(sorted(forbidden))}")


def _check_files(form: PipelineForm) -> None:
    for name in (name for decode in _decodes(form) for name in decode.files()):
        if not os.access(name, os.R_OK):
            raise ConfigError(f"[decode] schema_file={name}: there is no such file that can be read")
    kinds = {sink.format for sink in (*form.sinks, form.dead_letters) if sink is not None}
    for kind, module in ((SinkFormat.DELTA, "deltalake"), (SinkFormat.ICEBERG, "pyiceberg")):
        if kind in kinds and find_spec(module) is None:
            raise ConfigError(f"[sink] format={kind} needs {module}: pip install 'ottla[{kind}]'")


def _decodes(form: PipelineForm) -> list[Decode]:
    return [
        decode
        for source in form.sources
        for decode in (source.decode, source.decode.key)
        if decode is not None
    ]


def _check_schema(decode: Decode) -> None:
    """Raise ConfigError if the schema cannot be found or read: from a file, the form or a registry."""
    if decode.format in {Decoding.AVRO, Decoding.PROTOBUF} and all(
        os.access(name, os.R_OK) for name in decode.files()
    ):
        decoder_of(decode)


def _locations(form: PipelineForm, state: PipelineState | None) -> Iterator[str]:
    if state is not None:
        yield state.url
    for sink in (*form.sinks, form.dead_letters):
        if sink is not None and sink.path:
            yield sink.path


def check_writable(path: str) -> None:
    """Raise ConfigError unless the directory can be written or created; StorageError if a store does not
    answer.
    """
    where = location(path)
    if not isinstance(where, Directory):
        where.list(OWN)
        return
    there = where.root.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise ConfigError(f"{path}: {there} is no directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"{path}: {there} cannot be written by this user")


def _check_catalog(sink: SinkForm) -> None:
    """Raise ConfigError if the sink's catalog of Iceberg does not answer."""
    if sink.format is SinkFormat.ICEBERG and "catalog" in sink.options and find_spec("pyiceberg") is not None:
        try:
            IcebergTable(sink.path, sink.options).ends([])
        except OttlaError:
            raise
        except Exception as error:
            raise ConfigError(f"[sink] catalog={sink.options['catalog']}: {error}") from error


def _topic_sinks(form: PipelineForm) -> list[SinkForm]:
    sinks = [*form.sinks, *([form.dead_letters] if form.dead_letters else [])]
    return [sink for sink in sinks if sink.format is SinkFormat.TOPIC and sink.options.get("topic")]


def _check_exists(form: PipelineForm, sink: SinkForm, *, creates: bool = False) -> None:
    given = parse_options(SINK_OPTIONS, topic_options(sink, form.source))
    properties = client_properties(given.kafka, WITHOUT_EFFECT_IN_SINKS)
    if not creates:
        properties["allow.auto.create.topics"] = "false"
    table = (*CLIENT_PROPERTIES, *PRODUCER_PROPERTIES)
    cluster = SparkCluster(
        ClientConfig.from_values(parse_properties(table, properties, foreign=FOREIGN_PROPERTIES))
    )
    name = given.values["topic"]
    try:
        partitions = cluster.partitions(Topics((name,)))
        forbidden = cluster.forbidden(partitions, Operation.WRITE)
    finally:
        cluster.close()
    section = "dead_letters" if sink is form.dead_letters else "sink"
    if not partitions:
        raise ConfigError(f"[{section}] topic {name!r} does not exist: make it first")
    if forbidden:
        raise ConfigError(f"[{section}] this user may not write topic {name!r}")


# --- with Spark


def analysed(
    form: PipelineForm, spark: SparkSession, state: PipelineState | None, spans: Spans, sample: int = 0
) -> Analysed:
    """Let Spark analyse every step on no rows; with `sample`, show that many rows of real data.

    `spans` is what there is to read.
    """
    found = Analysed([], [], [])
    with _told(found.problems):
        decodes = schemas_now(form, spark, state)
        records = [nothing(spark, source) for source in form.source_options]
        for step in steps_of(form, records, decodes):
            found.schemas.append((step.name, step.rows.schema.simpleString()))
        for result in results_of(form, step.rows):
            with _told(found.problems):
                given = result.rows()
                if result.name:
                    found.schemas.append((result.name, given.schema.simpleString()))
                _check_columns(form, result.sink, given)
        if form.window or form.keeps_state or form.is_sent:
            _check_stream(form, spark, decodes)
    if sample and spans and not found.problems:
        with _told(found.problems):
            found.rows.extend(_examples(form, spark, decodes, spans, sample))
    return found


@contextmanager
def _told(problems: list[str]) -> Iterator[None]:
    """Add a line for what the block raises: what Spark or the user's function says is what is wrong."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        problem = str(error) if isinstance(error, OttlaError) else cause(str(error))
        if problem not in problems:
            problems.append(problem)


def _check_columns(form: PipelineForm, sink: SinkForm, rows: DataFrame) -> None:
    """Raise ConfigError for columns that a sink cannot have."""
    if sink.format is SinkFormat.TOPIC:
        sent = as_records(rows, keys_of(form.window) if form.window else ())
        sink_options(topic_options(sink, form.source), sent.schema)
    if sink.format not in TABLES:
        return
    names = [name.lower() for name in rows.columns]
    for name in rows.columns:
        if names.count(name.lower()) > 1:
            raise ConfigError(f"[sink] column {name} is there twice: a table has it once; rename one")
    for name in sink.partition_by:
        if name.lower() not in names:
            raise ConfigError(
                f"[sink] partition_by={name}{hint(name, rows.columns, otherwise=': there is no such column')}"
            )
    for field in rows.schema.fields:
        kinds = {leaf.typeName() for leaf in _leaves(field.dataType)}
        if kinds & {"void", "interval"} or (
            sink.format is not SinkFormat.PARQUET and any(map(_is_interval, kinds))
        ):
            kind = field.dataType.simpleString()
            raise ConfigError(
                f"[sink] column {field.name} is {kind}: no {sink.format} table has that; cast it"
            )
    _check_table(sink, rows)


def _check_table(sink: SinkForm, rows: DataFrame) -> None:
    """Raise ConfigError for columns that do not fit a table of Delta or Iceberg, a new one too."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = optional(to_arrow_schema(rows.schema, timezone="UTC"))
    if sink.format is SinkFormat.DELTA and find_spec("deltalake") is not None:
        DeltaLakeTable(sink).check(schema)
    if sink.format is SinkFormat.ICEBERG and find_spec("pyiceberg") is not None:
        IcebergTable(sink.path, sink.options, sink.partition_by).check(schema)


def _is_interval(name: str) -> bool:
    return name.endswith("interval")


def _leaves(kind: DataType) -> Iterator[DataType]:
    """The types that a type is made of."""
    match kind:
        case StructType():
            inner = [field.dataType for field in kind.fields]
        case ArrayType():
            inner = [kind.elementType]
        case MapType():
            inner = [kind.keyType, kind.valueType]
        case _:
            inner = []
            yield kind
    for part in inner:
        yield from _leaves(part)


def _check_stream(form: PipelineForm, spark: SparkSession, decodes: Sequence[Decode]) -> None:
    """Let Spark say whether it can do this with streams, such as the join. Raises its AnalysisException."""
    if is_remote(spark):  # Spark Connect does not show what is checked here; the start of a query does
        return
    records = [nothing_streamed(spark, source) for source in form.source_options]
    rows, _ = rows_of(form, records, decodes)
    rows = aggregated(rows, form.window) if form.window else rows
    mode = output_mode(form.window)
    classes: Any = spark._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    wanted = (
        classes.streaming.OutputMode.Update() if mode == "update" else classes.streaming.OutputMode.Append()
    )
    plan: Any = rows
    checker = classes.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(plan._jdf.queryExecution().analyzed(), wanted)


def _examples(
    form: PipelineForm, spark: SparkSession, decodes: Sequence[Decode], spans: Spans, count: int
) -> list[Any]:
    few = {
        topic_partition: [(many[0][0], min(many[0][1], many[0][0] + SAMPLED_RECORDS))]
        for topic_partition, many in spans.items()
    }
    rows, _ = rows_of(form, ranges(spark, form.source_options, few), decodes)
    *_, last = results_of(form, rows)
    return last.rows().limit(count).collect()


def shown_rows(rows: list[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield example rows as dictionaries, with bytes, times and decimals as text."""
    for row in rows:
        yield {name: _shown(value) for name, value in row.asDict(recursive=True).items()}


def _shown(value: Any) -> Any:
    match value:
        case bytes() | bytearray():
            return value.decode(errors="replace")
        case date() | Decimal():  # a datetime is a date
            return str(value)
        case dict():
            return {name: _shown(inner) for name, inner in value.items()}
        case list():
            return [_shown(inner) for inner in value]
    return value

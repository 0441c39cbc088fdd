"""Where rows go. A sink takes batches of a stream and whole ranges; one of totals takes rows that change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from ottla.spark.pipeline.aggregates import Times, TotalsTable
from ottla.spark.pipeline.delta import DeltaLakeTable
from ottla.spark.pipeline.form import Sink, SinkFormat, Window
from ottla.spark.pipeline.spans import Spans
from ottla.spark.pipeline.tables import Batch, ParquetTable
from ottla.spark.pipeline.windows import keys_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RowSink(Protocol):
    """Of rows that stay as they are."""

    def missing(self, batch: Batch) -> Spans:
        """Which records of a batch are to be written."""

    def append(self, rows: DataFrame, batch: Batch) -> None:
        """The rows of a batch; its spans are what is missing."""

    def covered(self, spans: Spans) -> Spans:
        """What has to be read so that a range can be replaced."""

    def replace(self, rows: DataFrame, spans: Spans, *, is_all: bool) -> None:
        """The rows of a range, instead of what is there of it."""


class TotalsSink(Protocol):
    """Of windows' rows, which change."""

    def merge(self, rows: DataFrame, batch: Batch) -> None:
        """Rows that a batch has changed."""

    def replace(self, rows: DataFrame, times: Times) -> None:
        """All rows of the windows that begin within."""


class _Forgetful:
    """Knows nothing of what it was given."""

    def missing(self, batch: Batch) -> Spans:
        """All of it."""
        return batch.spans

    def covered(self, spans: Spans) -> Spans:
        """The range itself."""
        return spans


class TopicSink(_Forgetful):
    """Records: what is written twice is there twice."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def append(self, rows: DataFrame, batch: Batch) -> None:  # noqa: ARG002 - a topic keeps no number
        """Send."""
        self._send(rows)

    def replace(self, rows: DataFrame, spans: Spans, *, is_all: bool) -> None:  # noqa: ARG002
        """Send: a topic forgets nothing."""
        self._send(rows)

    def _send(self, rows: DataFrame) -> None:
        as_records(rows).write.format("ottla").mode("append").options(**self._options).save()


class LetterSink(TopicSink):
    """Refused records."""

    def _send(self, rows: DataFrame) -> None:
        super()._send(as_letters(rows))


class ConsoleSink(_Forgetful):
    """For eyes."""

    def append(self, rows: DataFrame, batch: Batch) -> None:  # noqa: ARG002
        """Show some."""
        rows.show(truncate=False)

    def replace(self, rows: DataFrame, spans: Spans, *, is_all: bool) -> None:  # noqa: ARG002
        """Show some."""
        rows.show(truncate=False)


class ParquetTotals:
    """Windows' rows in parquet."""

    def __init__(self, sink: Sink, window: Window) -> None:
        self._table = TotalsTable(sink.path, keys_of(window), sink.partition_by)

    def merge(self, rows: DataFrame, batch: Batch) -> None:  # noqa: ARG002 - totals replace totals
        """Rows that a batch has changed."""
        self._table.merge(arrow_of(rows))

    def replace(self, rows: DataFrame, times: Times) -> None:
        """All rows of the windows that begin within."""
        self._table.replace(arrow_of(rows), times)


class DeltaTotals:
    """Windows' rows in Delta Lake."""

    def __init__(self, sink: Sink, window: Window) -> None:
        self._table = DeltaLakeTable(sink, keys_of(window))

    def merge(self, rows: DataFrame, batch: Batch) -> None:
        """Rows that a batch has changed."""
        self._table.merge(arrow_of(rows), batch)

    def replace(self, rows: DataFrame, times: Times) -> None:
        """All rows of the windows that begin within."""
        self._table.replace_windows(arrow_of(rows), times)


class SentTotals:
    """Windows' rows on a topic or a console: each change is one more row."""

    def __init__(self, sink: RowSink) -> None:
        self._sink = sink

    def merge(self, rows: DataFrame, batch: Batch) -> None:
        """Rows that a batch has changed."""
        self._sink.append(rows, batch)

    def replace(self, rows: DataFrame, times: Times) -> None:  # noqa: ARG002
        """All rows."""
        self._sink.replace(rows, {}, is_all=True)


def row_sink(sink: Sink, source: Mapping[str, str]) -> RowSink:
    """For rows that stay as they are."""
    if sink.format is SinkFormat.PARQUET:
        return ParquetTable(sink)
    if sink.format is SinkFormat.DELTA:
        return DeltaLakeTable(sink)
    return ConsoleSink() if sink.format is SinkFormat.CONSOLE else TopicSink(topic_options(sink, source))


def letter_sink(sink: Sink, source: Mapping[str, str]) -> RowSink:
    """For refused records."""
    if sink.format is SinkFormat.TOPIC:
        return LetterSink(topic_options(sink, source))
    return row_sink(sink, source)


def totals_sink(sink: Sink, source: Mapping[str, str], window: Window) -> TotalsSink:
    """For windows' rows."""
    if sink.format is SinkFormat.PARQUET:
        return ParquetTotals(sink, window)
    return (
        DeltaTotals(sink, window) if sink.format is SinkFormat.DELTA else SentTotals(row_sink(sink, source))
    )


def topic_options(sink: Sink, source: Mapping[str, str]) -> dict[str, str]:
    """Of format("ottla"): the source's cluster, unless the sink names another."""
    return {name: value for name, value in source.items() if name.startswith("kafka.")} | dict(sink.options)


def as_letters(rows: DataFrame) -> DataFrame:
    """Refused records as they came; why, and where from, is in their headers."""
    told = [
        F.struct(
            F.lit(f"ottla-{name}").alias("key"), F.col(name).cast("string").cast("binary").alias("value")
        )
        for name in ("reason", "topic", "partition", "offset")
        if name in rows.columns
    ]
    return rows.select("key", "value", F.array(*told).alias("headers"))


def as_records(rows: DataFrame, keys: tuple[str, ...] = ()) -> DataFrame:
    """Rows that have no column value, as JSON; `keys` are the record's key then."""
    if "value" in rows.columns and not keys:
        return rows
    value = F.to_json(F.struct(*rows.columns)).alias("value")
    return rows.select(*([F.to_json(F.struct(*keys)).alias("key")] if keys else []), value)


def arrow_of(rows: DataFrame) -> pa.Table:
    """All rows, on the driver, with times in UTC."""
    table = rows.toArrow()
    fields = [
        field.with_type(pa.timestamp("us", "UTC"))
        if pa.types.is_timestamp(field.type) and field.type.tz
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))

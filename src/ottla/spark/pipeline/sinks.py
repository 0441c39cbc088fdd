"""Sinks: they take batches of a stream and whole ranges; sinks of totals take rows that change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from ottla.spark.iceberg import IcebergTable, within
from ottla.spark.pipeline.aggregates import WINDOW_START, Times, TotalsTable, without
from ottla.spark.pipeline.delta import DeltaLakeTable
from ottla.spark.pipeline.form import PipelineForm, Window
from ottla.spark.pipeline.guarantee import named, topic_options
from ottla.spark.pipeline.iceberg_sink import IcebergSink
from ottla.spark.pipeline.sink_form import SinkForm, SinkFormat
from ottla.spark.pipeline.spans import Spans
from ottla.spark.pipeline.tables import ParquetTable, TableBatch
from ottla.spark.pipeline.windows import keys_of
from ottla.spark.table_columns import optional

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RowSink(Protocol):
    """A sink of rows that never change."""

    def missing(self, batch: TableBatch) -> Spans:
        """The records of a batch that have to be written."""

    def append(self, rows: DataFrame, batch: TableBatch) -> None:
        """Write the rows of a batch; its spans are what `missing` returned."""

    def covered(self, spans: Spans) -> Spans:
        """The records to read so that the range can be replaced."""

    def replace(self, rows: DataFrame, spans: Spans, *, is_all: bool) -> None:
        """Write the rows of a range in place of its old rows."""


class TotalsSink(Protocol):
    """A sink of window totals, which change."""

    def merge(self, rows: DataFrame, batch: TableBatch) -> None:
        """Write the rows that a batch has changed."""

    def replace(self, rows: DataFrame, times: Times) -> None:
        """Replace all rows of the windows that begin within `times`."""


class _Forgetful:
    """A sink that does not know what it has received."""

    def missing(self, batch: TableBatch) -> Spans:
        """All records of the batch."""
        return batch.spans

    def covered(self, spans: Spans) -> Spans:
        """The range itself."""
        return spans


class TopicSink(_Forgetful):
    """A topic. A repeated batch is recognised, if the options allow that (`guarantee`)."""

    def __init__(self, options: Mapping[str, str], kind: str = "rows") -> None:
        self._options = dict(options)
        self._kind = kind

    def append(self, rows: DataFrame, batch: TableBatch) -> None:
        """Send the rows of a batch."""
        self._send(rows, named(self._options, f"{batch.query_id}-{self._kind}", batch.number))

    def replace(self, rows: DataFrame, spans: Spans, *, is_all: bool) -> None:  # noqa: ARG002
        """Send the rows again: a topic keeps the old ones."""
        self._send(rows, self._options)

    def _send(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        as_records(rows).write.format("ottla").mode("append").options(**options).save()


class LetterSink(TopicSink):
    """A topic of refused records."""

    def _send(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        super()._send(as_letters(rows), options)


class ConsoleSink(_Forgetful):
    """Prints some rows."""

    def append(self, rows: DataFrame, batch: TableBatch) -> None:  # noqa: ARG002
        """Print some rows."""
        rows.persist()
        try:
            compute(rows)
            rows.show(truncate=False)
        finally:
            rows.unpersist()

    def replace(self, rows: DataFrame, spans: Spans, *, is_all: bool) -> None:  # noqa: ARG002
        """Print some rows."""
        rows.show(truncate=False)


class ParquetTotals:
    """Window totals in parquet."""

    def __init__(self, sink: SinkForm, window: Window) -> None:
        self._table = TotalsTable(sink.path, keys_of(window), sink.partition_by)

    def merge(self, rows: DataFrame, batch: TableBatch) -> None:  # noqa: ARG002 - totals replace totals
        """Write the rows that a batch has changed."""
        self._table.merge(arrow_of(rows))

    def replace(self, rows: DataFrame, times: Times) -> None:
        """Replace all rows of the windows that begin within `times`."""
        self._table.replace(arrow_of(rows), times)


class DeltaTotals:
    """Window totals in Delta Lake."""

    def __init__(self, sink: SinkForm, window: Window) -> None:
        self._table = DeltaLakeTable(sink, keys_of(window))

    def merge(self, rows: DataFrame, batch: TableBatch) -> None:
        """Write the rows that a batch has changed."""
        self._table.merge(arrow_of(rows), batch)

    def replace(self, rows: DataFrame, times: Times) -> None:
        """Replace all rows of the windows that begin within `times`."""
        self._table.replace_windows(arrow_of(rows), times)


class IcebergTotals:
    """Window totals in Iceberg. The driver rewrites the windows that a batch has changed."""

    def __init__(self, sink: SinkForm, window: Window) -> None:
        self._table = IcebergTable(sink.path, sink.options, sink.partition_by)
        self._keys = keys_of(window)

    def merge(self, rows: DataFrame, batch: TableBatch) -> None:  # noqa: ARG002 - totals replace totals
        """Write the rows that a batch has changed."""
        news = arrow_of(rows)
        if not news.num_rows:
            return
        begins = news.column(WINDOW_START).to_pylist()
        times = within(WINDOW_START, min(begins), max(begins) + timedelta(microseconds=1))
        self._table.rewrite(times, news.schema, lambda old: [without(old, news, self._keys), news])

    def replace(self, rows: DataFrame, times: Times) -> None:
        """Replace all rows of the windows that begin within `times`."""
        news = arrow_of(rows)
        self._table.rewrite(within(WINDOW_START, times.start, times.end), news.schema, lambda _: [news])


class SentTotals:
    """Window totals on a topic or a console: each change is one more row."""

    def __init__(self, sink: RowSink) -> None:
        self._sink = sink

    def merge(self, rows: DataFrame, batch: TableBatch) -> None:
        """Write the rows that a batch has changed, in an order that is the same if it is repeated."""
        self._sink.append(rows.sortWithinPartitions("key") if "key" in rows.columns else rows, batch)

    def replace(self, rows: DataFrame, times: Times) -> None:  # noqa: ARG002
        """Send or print all rows."""
        self._sink.replace(rows, {}, is_all=True)


def row_sinks(form: PipelineForm) -> list[RowSink]:
    """The sinks for rows that never change. Each knows its own batches."""
    return [_row_sink(form, which) for which in range(len(form.sinks))]


def _row_sink(form: PipelineForm, which: int) -> RowSink:
    sink = form.sinks[which]
    if sink.format is SinkFormat.CONSOLE:
        return ConsoleSink()
    if sink.format is SinkFormat.TOPIC:
        return TopicSink(topic_options(sink, form.source), f"rows-{which}" if which else "rows")
    return _table(sink)


def _table(sink: SinkForm) -> RowSink:
    if sink.format is SinkFormat.ICEBERG:
        return IcebergSink(sink)
    return DeltaLakeTable(sink) if sink.format is SinkFormat.DELTA else ParquetTable(sink)


def letter_sink(sink: SinkForm, source: Mapping[str, str]) -> RowSink:
    """The sink for refused records."""
    if sink.format is SinkFormat.TOPIC:
        return LetterSink(topic_options(sink, source), "letters")
    return _table(sink)


def totals_sink(form: PipelineForm, which: int) -> TotalsSink:
    """Return one of the sinks, for window totals."""
    sink, window = form.sinks[which], form.window
    assert window is not None
    if sink.format is SinkFormat.PARQUET:
        return ParquetTotals(sink, window)
    if sink.format is SinkFormat.ICEBERG:
        return IcebergTotals(sink, window)
    return (
        DeltaTotals(sink, window) if sink.format is SinkFormat.DELTA else SentTotals(_row_sink(form, which))
    )


def compute(rows: DataFrame) -> None:
    """Compute all rows of a batch, because a stream that keeps state needs that, whatever is
    written of them.
    """
    rows.write.format("noop").mode("overwrite").save()


def as_letters(rows: DataFrame) -> DataFrame:
    """Refused records unchanged, with the reason and their origin in headers."""
    headers = [
        F.struct(
            F.lit(f"ottla-{name}").alias("key"), F.col(name).cast("string").cast("binary").alias("value")
        )
        for name in ("reason", "topic", "partition", "offset")
        if name in rows.columns
    ]
    return rows.select("key", "value", F.array(*headers).alias("headers"))


def as_records(rows: DataFrame, keys: tuple[str, ...] = ()) -> DataFrame:
    """Rows without a column `value` as JSON; `keys` then become the record's key."""
    if "value" in rows.columns and not keys:
        return rows
    value = F.to_json(F.struct(*rows.columns)).alias("value")
    return rows.select(*([F.to_json(F.struct(*keys)).alias("key")] if keys else []), value)


def arrow_of(rows: DataFrame) -> pa.Table:
    """All rows as Arrow, on the driver, with times in UTC."""
    table = rows.toArrow()
    fields = [
        field.with_type(pa.timestamp("us", "UTC"))
        if pa.types.is_timestamp(field.type) and field.type.tz
        else field
        for field in table.schema
    ]
    return table.cast(optional(pa.schema(fields)))

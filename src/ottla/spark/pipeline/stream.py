"""The queries of a pipeline that runs online, and how they are started."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ottla.spark.landing import land_stream
from ottla.spark.pipeline import offsets
from ottla.spark.pipeline.batches import BatchWriter
from ottla.spark.pipeline.decoding import with_schemas
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.guarantee import topic_options
from ottla.spark.pipeline.reading import streams
from ottla.spark.pipeline.sink_form import SinkFormat
from ottla.spark.pipeline.sinks import as_records
from ottla.spark.pipeline.state import PipelineState
from ottla.spark.pipeline.steps import rows_of, written
from ottla.spark.pipeline.windows import aggregated, output_mode
from ottla.spark.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

REFUSED = "refused"
Trigger = Mapping[str, object]
Write = Callable[["DataFrame", int], None]
_BATCHES_WITHOUT_RECORDS = "spark.sql.streaming.noDataMicroBatches.enabled"


class PipelineStream:
    """Starts the queries of a pipeline."""

    def __init__(
        self, form: PipelineForm, spark: SparkSession, state: PipelineState, trigger: Trigger | None
    ) -> None:
        self.name = f"ottla-{uuid.uuid4().hex}"
        self.busy = threading.Lock()
        self._form = form
        self._spark = spark
        self._state = state
        self._trigger = trigger
        self._decodes = with_schemas(form, spark, state)
        self._writer = BatchWriter(form, self._decodes, state)

    def start(self) -> list[StreamingQuery]:
        """Start the queries; the first one writes the rows."""
        form = self._form
        if form.sink.format is SinkFormat.LANDING:
            return [self._landing()]
        sources = offsets.pinned(form.source_options, self._state)
        if not (form.window or form.keeps_state or form.is_sent):
            (records,) = streams(self._spark, sources)
            return [self._started(records, self._writer.write_records, self._state)]
        # The stream itself is transformed, so what it refuses needs a query of its own.
        rows, _ = rows_of(form, streams(self._spark, sources), self._decodes)
        if form.window:
            queries = [self._totals(rows)]
        elif form.is_sent:
            queries = [self._sent(rows)]
        else:
            with _only_batches_with_records(self._spark):
                queries = [self._started(rows, self._writer.write_rows, self._state)]
        silent = [offsets.silent(source) for source in sources]
        _, bad = rows_of(form, streams(self._spark, silent), self._decodes)
        if bad is not None:
            state = PipelineState(f"{self._state.url}/{REFUSED}")
            write = BatchWriter(form, self._decodes, state).write_letters
            queries.append(self._started(bad, write, state))
        return queries

    def _landing(self) -> StreamingQuery:
        sink = self._form.sink
        return land_stream(
            self._spark,
            {**self._form.source, **sink.options},
            sink.path,
            self._state.url,
            trigger=self._trigger,
            name=self.name,
            compact_after=sink.compact_after,
        )

    def _totals(self, rows: DataFrame) -> StreamingQuery:
        window = self._form.window
        assert window is not None
        totals = aggregated(rows, window)
        return self._started(totals, self._writer.write_totals, self._state, output_mode(window))

    def _sent(self, rows: DataFrame) -> StreamingQuery:
        writer = as_records(written(rows, self._form.sink)).writeStream.format("ottla").queryName(self.name)
        writer = writer.options(**topic_options(self._form.sink, self._form.source))
        return self._triggered(writer, self._state)

    def _started(
        self, rows: DataFrame, write: Write, state: PipelineState, mode: str = "append"
    ) -> StreamingQuery:
        def guarded(batch: DataFrame, number: int) -> None:
            with self.busy:
                write(batch, number)

        # Spark Connect pickles the function and calls it in its server, where no lock of ours is.
        called = write if is_remote(self._spark) else guarded
        writer = rows.writeStream.foreachBatch(called).outputMode(mode)
        return self._triggered(writer.queryName(self.name) if state is self._state else writer, state)

    def _triggered(self, writer: Any, state: PipelineState) -> StreamingQuery:
        if self._trigger is not None:
            writer = writer.trigger(**self._trigger)
        query: StreamingQuery = writer.option("checkpointLocation", state.url).start()
        return query


@contextmanager
def _only_batches_with_records(spark: SparkSession) -> Iterator[None]:
    """Give queries that start inside the block no batch without records: tables know batches by their
    records.
    """
    before = spark.conf.get(_BATCHES_WITHOUT_RECORDS)
    spark.conf.set(_BATCHES_WITHOUT_RECORDS, "false")
    try:
        yield
    finally:
        spark.conf.set(_BATCHES_WITHOUT_RECORDS, before or "true")

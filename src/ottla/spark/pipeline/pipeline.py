"""Pipeline: from topics to tables and topics, declared once and run in two ways.

    pipeline = Pipeline.read("orders.toml")
    pipeline.online(spark, trigger={"availableNow": True}).awaitTermination()
    pipeline.offline(spark, start="2026-01-31", end="2026-02-01")

Online is a stream: every record once, starting at the checkpoint. Offline is a bounded range, by offset or
time. It may be run again: it replaces what it wrote. Both process a record in the same way, so they give the
same table.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ottla.model.errors import ConfigError
from ottla.spark.landing import land, land_stream
from ottla.spark.landing_files import landed
from ottla.spark.locations import location
from ottla.spark.pipeline import offsets
from ottla.spark.pipeline.aggregates import Times
from ottla.spark.pipeline.checks import Analysed, analysed, check_sinks, problems
from ottla.spark.pipeline.decoding import with_schema
from ottla.spark.pipeline.delta import records_predicate
from ottla.spark.pipeline.form import Emit, PipelineForm, SinkFormat
from ottla.spark.pipeline.guarantee import guaranteed, topic_options
from ottla.spark.pipeline.ranges import ending, starting
from ottla.spark.pipeline.run import PipelineRun, Recorder
from ottla.spark.pipeline.sinks import RowSink, as_records, letter_sink, row_sink, totals_sink
from ottla.spark.pipeline.spans import Spans
from ottla.spark.pipeline.state import PipelineState
from ottla.spark.pipeline.status import PipelineStatus, status_of
from ottla.spark.pipeline.steps import rows_of
from ottla.spark.pipeline.tables import TableBatch
from ottla.spark.pipeline.units import Unit, extended
from ottla.spark.pipeline.windows import aggregated, keys_of, with_date, within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

REFUSED = "refused"
Trigger = Mapping[str, object]
Write = Callable[["DataFrame", int], None]


class Pipeline:
    """A pipeline made from a PipelineForm. It holds nothing open between calls.

    >>> from ottla.spark import Pipeline
    >>> source = {"bootstrap": "127.0.0.1:9092", "topics": ["orders"], "start": "earliest"}
    >>> pipeline = Pipeline.of({"source": source, "sink": {"format": "landing", "path": "tables/orders"}})
    >>> [(str(part.topic_partition), part.start, part.end) for part in pipeline.reach(is_online=False)]
    [('orders-0', 0, 3)]
    """

    def __init__(self, form: PipelineForm) -> None:
        self.form = form

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """From a TOML file. Raises ConfigError."""
        return cls(PipelineForm.read(path))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """From a dictionary with the content of such a file. Raises ConfigError."""
        return cls(PipelineForm.of(given))

    def __str__(self) -> str:
        return "\n".join(self.form.steps())

    def state(self, checkpoint: str | Path | None = None) -> PipelineState | None:
        """The stored state, or None without a checkpoint."""
        checkpoint_dir = checkpoint or self.form.checkpoint
        return PipelineState(checkpoint_dir) if checkpoint_dir else None

    def reach(
        self,
        checkpoint: str | Path | None = None,
        *,
        is_online: bool,
        start: str = "",
        end: str = "",
    ) -> list[offsets.Reach]:
        """The offsets that a run would read now. Needs no Spark."""
        if is_online:
            return offsets.of_stream(self.form.source, self.state(checkpoint))
        bounds = {**(starting(start, "start") if start else {}), **(ending(end, "end") if end else {})}
        spans = offsets.of_range(self.form.source, bounds)
        return [
            offsets.Reach(topic_partition, first, last) for topic_partition, ((first, last),) in spans.items()
        ]

    def problems(self, checkpoint: str | Path | None = None) -> list[str]:
        """A line for each thing that would make a run fail and that is known without Spark."""
        return problems(self.form, self.state(checkpoint))

    def analysed(
        self, spark: SparkSession, checkpoint: str | Path | None = None, *, sample: int = 0
    ) -> Analysed:
        """What Spark says about every step, before anything runs; and `sample` rows of real data."""
        spans = offsets.of_range(self.form.source, {}) if sample else {}
        return analysed(self.form, spark, self.state(checkpoint), spans, sample)

    def status(self, checkpoint: str | Path | None = None) -> PipelineStatus:
        """Offsets, lag and the last batches. Needs no Spark. Raises ConfigError."""
        state = self.state(checkpoint)
        if state is None:
            raise ConfigError("which checkpoint? Give one")
        return status_of(state, self.form.source)

    # --- online

    def online(
        self, spark: SparkSession, checkpoint: str | Path | None = None, *, trigger: Trigger | None = None
    ) -> PipelineRun:
        """Start the stream. `trigger` is Spark's: {"availableNow": True}, {"processingTime": "9 seconds"}."""
        state = self.state(checkpoint)
        if state is None:
            raise ConfigError("a stream needs a checkpoint, the directory that it goes on from: give one")
        check_sinks(self.form)
        stream = _Stream(guaranteed(self.form), spark, state, trigger)
        recorder = Recorder(stream.name, state)
        spark.streams.addListener(recorder)
        try:
            return PipelineRun(spark, stream.start(), recorder, stream.busy)
        except BaseException:
            spark.streams.removeListener(recorder)
            raise

    # --- offline

    def offline(
        self,
        spark: SparkSession,
        checkpoint: str | Path | None = None,
        *,
        start: str = "",
        end: str = "",
        **bounds: str,
    ) -> Spans:
        """Process a bounded range, and return its offsets.

        `start` and `end` are a time, "earliest", "latest" or offsets as JSON (see `ranges`); `bounds` are
        options such as startingOffsets.
        """
        form = guaranteed(self.form)
        bounds |= starting(start, "start") if start else {}
        bounds |= ending(end, "end") if end else {}
        check_sinks(form)
        if form.window:
            return self._offline_windows(form, spark, checkpoint, bounds)
        reach = offsets.of_range(form.source, bounds)
        if not reach:
            log.info("there is nothing to read")
            return reach
        if form.sink.format is SinkFormat.LANDING:
            covered = extended(reach, landed_units(form.sink.path, reach))
            offsets.check_still_there(form.source, covered, reach)
            land(spark, {**offsets.exactly(form.source, covered), **form.sink.options}, form.sink.path)
            return covered
        sinks = [row_sink(form.sink, form.source)]
        sinks += [letter_sink(form.dead_letters, form.source)] if form.dead_letters else []
        covered = covered_by(sinks, reach)
        offsets.check_still_there(form.source, covered, reach)
        decode = with_schema(form, spark, self.state(checkpoint))
        rows = rows_of(form, self._records(spark, covered), decode)
        for sink, part in zip(sinks, rows, strict=False):
            if part is not None:
                sink.replace(part, covered, is_all=not bounds)
        return covered

    def _records(self, spark: SparkSession, spans: Spans) -> DataFrame:
        return spark.read.format("ottla").options(**offsets.exactly(self.form.source, spans)).load()

    def _offline_windows(
        self,
        form: PipelineForm,
        spark: SparkSession,
        checkpoint: str | Path | None,
        bounds: Mapping[str, str],
    ) -> Spans:
        assert form.window is not None
        times = times_of(bounds)
        # Rows of a window may come long after its end: only the beginning of what is read is bounded.
        reach = offsets.of_range(form.source, {k: v for k, v in bounds.items() if not k.startswith("ending")})
        if not reach:
            log.info("there is nothing to read")
            return reach
        decode = with_schema(form, spark, self.state(checkpoint))
        good, _ = rows_of(form, self._records(spark, reach), decode)
        rows = within(with_date(aggregated(good, form.window), form.sink.partition_by), times)
        totals_sink(form.sink, form.source, form.window).replace(rows, times)
        if form.dead_letters:
            sink = letter_sink(form.dead_letters, form.source)
            covered = covered_by([sink], reach)
            offsets.check_still_there(form.source, covered, reach)
            _, bad = rows_of(form, self._records(spark, covered), decode)
            if bad is not None:
                sink.replace(bad, covered, is_all=times.is_all)
        return reach


def covered_by(sinks: Sequence[RowSink], spans: Spans) -> Spans:
    """The range, widened until it cuts no unit of any table."""
    while True:
        wider = spans
        for sink in sinks:
            wider = sink.covered(wider)
        if wider == spans:
            return spans
        spans = wider


def landed_units(path: str, spans: Spans) -> list[Unit]:
    """The landed files of these partitions as units, one per file."""
    where = location(path)
    return [
        Unit(file.path, {span: [(file.start, file.end)]}) for span in spans for file in landed(where, span)
    ]


def times_of(bounds: Mapping[str, str]) -> Times:
    """The windows that a range covers. Raises ConfigError for a range of offsets: it would cut windows."""
    known = {"startingTimestamp", "startingOffsetsByTimestampStrategy", "endingTimestamp"}
    if bounds.keys() - known:
        raise ConfigError(
            "[window]: a range of windows is one of times, as offsets would cut some; give times"
        )
    moments = [
        datetime.fromtimestamp(int(bounds[name]) / 1000, UTC) if name in bounds else None
        for name in ("startingTimestamp", "endingTimestamp")
    ]
    return Times(*moments)


def only(rows: DataFrame, wanted: Spans) -> DataFrame:
    """Only the rows of these records."""
    return rows.where(records_predicate(wanted))


class _Stream:
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
        self._decode = with_schema(form, spark, state)

    def start(self) -> list[StreamingQuery]:
        form = self._form
        if form.sink.format is SinkFormat.LANDING:
            options = {**form.source, **form.sink.options}
            query = land_stream(
                self._spark,
                options,
                form.sink.path,
                self._state.url,
                trigger=self._trigger,
                name=self.name,
                compact_after=form.sink.compact_after,
            )
            return [query]
        source = offsets.pinned(form.source, self._state)
        if form.window is None and form.sink.format is not SinkFormat.TOPIC:
            return [self._started(self._records(source), self._write_rows, self._state)]
        # The stream itself is transformed, so what it refuses needs a query of its own.
        state = PipelineState(f"{self._state.url}/{REFUSED}")
        rows, _ = rows_of(form, self._records(source), self._decode)
        queries = [self._totals(rows) if form.window else self._sent(rows)]
        _, bad = rows_of(form, self._records(offsets.silent(source)), self._decode)
        if bad is not None:
            queries.append(
                self._started(bad, lambda rows, number: self._keep_bad(rows, number, state), state)
            )
        return queries

    def _records(self, source: Mapping[str, str]) -> DataFrame:
        return self._spark.readStream.format("ottla").options(**source).load()

    def _write_rows(self, records: DataFrame, number: int) -> None:
        form, batch = self._form, self._batch(self._state, number)
        if form.dead_letters:
            records.persist()
        try:
            sinks = [row_sink(form.sink, form.source)]
            sinks += [letter_sink(form.dead_letters, form.source)] if form.dead_letters else []
            whole = rows_of(form, records, self._decode)
            for which, sink in enumerate(sinks):
                missing = sink.missing(batch)
                is_whole = missing == batch.spans
                parts = whole if is_whole else rows_of(form, only(records, missing), self._decode)
                rows = parts[which]
                if missing and rows is not None:
                    sink.append(rows, replace(batch, spans=missing))
        finally:
            records.unpersist()

    def _keep_bad(self, rows: DataFrame, number: int, state: PipelineState) -> None:
        assert self._form.dead_letters
        sink = letter_sink(self._form.dead_letters, self._form.source)
        batch = self._batch(state, number)
        missing = sink.missing(batch)
        if missing:
            sink.append(only(rows, missing), replace(batch, spans=missing))

    def _totals(self, rows: DataFrame) -> StreamingQuery:
        form, window = self._form, self._form.window
        assert window is not None
        totals = with_date(aggregated(rows, window), form.sink.partition_by)
        mode = "update" if window.emit is Emit.UPDATES else "append"
        if form.sink.format is SinkFormat.TOPIC:
            totals = as_records(totals, keys_of(window))
        sink = totals_sink(form.sink, form.source, window)

        def write(changed: DataFrame, number: int) -> None:
            sink.merge(changed, self._batch(self._state, number))

        return self._started(totals, write, self._state, mode)

    def _sent(self, rows: DataFrame) -> StreamingQuery:
        writer = as_records(rows).writeStream.format("ottla").queryName(self.name)
        writer = writer.options(**topic_options(self._form.sink, self._form.source))
        return self._triggered(writer, self._state)

    def _started(
        self, rows: DataFrame, write: Write, state: PipelineState, mode: str = "append"
    ) -> StreamingQuery:
        def guarded(batch: DataFrame, number: int) -> None:
            with self.busy:
                write(batch, number)

        writer = rows.writeStream.foreachBatch(guarded).outputMode(mode)
        return self._triggered(writer.queryName(self.name) if state is self._state else writer, state)

    def _triggered(self, writer: Any, state: PipelineState) -> StreamingQuery:
        if self._trigger is not None:
            writer = writer.trigger(**self._trigger)
        query: StreamingQuery = writer.option("checkpointLocation", state.url).start()
        return query

    @staticmethod
    def _batch(state: PipelineState, number: int) -> TableBatch:
        return TableBatch(state.query_id(), number, state.spans(number))

"""Pipeline: topics in, tables and topics out, declared once and run in two ways.

    pipeline = Pipeline.read("orders.toml")
    pipeline.online(spark, trigger={"availableNow": True}).awaitTermination()
    pipeline.offline(spark, start="2026-01-31", end="2026-02-01")

Online is a stream: every record once, from where the checkpoint is. Offline is a bounded range, by offset or
time, and may be run again: it replaces what it covers. Both do the same to a record, so they give the same
table.
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
from ottla.spark.pipeline import offsets
from ottla.spark.pipeline.aggregates import Times
from ottla.spark.pipeline.decoding import can_be_refused, decoded, with_schema
from ottla.spark.pipeline.delta import records_predicate
from ottla.spark.pipeline.form import Decode, Emit, PipelineForm, SinkFormat
from ottla.spark.pipeline.functions import loaded, split, with_arrow
from ottla.spark.pipeline.ranges import ending, starting
from ottla.spark.pipeline.run import PipelineRun, Recorder
from ottla.spark.pipeline.sinks import RowSink, as_records, letter_sink, row_sink, topic_options, totals_sink
from ottla.spark.pipeline.spans import Spans
from ottla.spark.pipeline.state import State
from ottla.spark.pipeline.status import PipelineStatus, status_of
from ottla.spark.pipeline.tables import Batch
from ottla.spark.pipeline.units import Unit, extended
from ottla.spark.pipeline.windows import aggregated, keys_of, with_date, within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

VIEW = "records"
REFUSED = "refused"
Trigger = Mapping[str, object]
Write = Callable[["DataFrame", int], None]


class Pipeline:
    """Made of a form; holds nothing that is open."""

    def __init__(self, form: PipelineForm) -> None:
        self.form = form

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Of a TOML file. Raises ConfigError."""
        return cls(PipelineForm.read(path))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Of a dictionary as such a file holds it. Raises ConfigError."""
        return cls(PipelineForm.of(given))

    def __str__(self) -> str:
        return "\n".join(self.form.steps())

    def state(self, checkpoint: str | Path | None = None) -> State | None:
        """What survives a restart, if there is a place for it."""
        place = checkpoint or self.form.checkpoint
        return State(place) if place else None

    def reach(
        self,
        checkpoint: str | Path | None = None,
        *,
        is_online: bool,
        start: str = "",
        end: str = "",
    ) -> list[offsets.Reach]:
        """What a run would read now, without running it. Needs no Spark."""
        if is_online:
            return offsets.of_stream(self.form.source, self.state(checkpoint))
        bounds = {**(starting(start, "start") if start else {}), **(ending(end, "end") if end else {})}
        spans = offsets.of_range(self.form.source, bounds)
        return [offsets.Reach(place, one, last) for place, ((one, last),) in spans.items()]

    def status(self, checkpoint: str | Path | None = None) -> PipelineStatus:
        """How far it is: offsets, lag, the last batches. Needs no Spark. Raises ConfigError."""
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
        stream = _Stream(self.form, spark, state, trigger)
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
        """Run over a bounded range, and return it.

        `start` and `end` are as people write them (`ranges`); `bounds` are options such as startingOffsets.
        """
        form = self.form
        bounds |= starting(start, "start") if start else {}
        bounds |= ending(end, "end") if end else {}
        if form.window:
            return self._offline_windows(spark, checkpoint, bounds)
        told = offsets.of_range(form.source, bounds)
        if not told:
            log.info("there is nothing to read")
            return told
        if form.sink.format is SinkFormat.LANDING:
            covered = extended(told, landed_units(form.sink.path, told))
            offsets.check_still_there(form.source, covered, told)
            land(spark, {**offsets.exactly(form.source, covered), **form.sink.options}, form.sink.path)
            return covered
        sinks = [row_sink(form.sink, form.source)]
        sinks += [letter_sink(form.dead_letters, form.source)] if form.dead_letters else []
        covered = covered_by(sinks, told)
        offsets.check_still_there(form.source, covered, told)
        decode = with_schema(form, spark, self.state(checkpoint))
        rows = rows_of(form, self._records(spark, covered), decode)
        for sink, part in zip(sinks, rows, strict=False):
            if part is not None:
                sink.replace(part, covered, is_all=not bounds)
        return covered

    def _records(self, spark: SparkSession, spans: Spans) -> DataFrame:
        return spark.read.format("ottla").options(**offsets.exactly(self.form.source, spans)).load()

    def _offline_windows(
        self, spark: SparkSession, checkpoint: str | Path | None, bounds: Mapping[str, str]
    ) -> Spans:
        form = self.form
        assert form.window is not None
        times = times_of(bounds)
        # Rows of a window may come long after its end: only the beginning of what is read is bounded.
        told = offsets.of_range(form.source, {k: v for k, v in bounds.items() if not k.startswith("ending")})
        if not told:
            log.info("there is nothing to read")
            return told
        decode = with_schema(form, spark, self.state(checkpoint))
        good, _ = rows_of(form, self._records(spark, told), decode)
        rows = within(with_date(aggregated(good, form.window), form.sink.partition_by), times)
        totals_sink(form.sink, form.source, form.window).replace(rows, times)
        if form.dead_letters:
            sink = letter_sink(form.dead_letters, form.source)
            covered = covered_by([sink], told)
            offsets.check_still_there(form.source, covered, told)
            _, bad = rows_of(form, self._records(spark, covered), decode)
            if bad is not None:
                sink.replace(bad, covered, is_all=times.is_all)
        return told


def covered_by(sinks: Sequence[RowSink], spans: Spans) -> Spans:
    """A range that none of the tables has only a part of a unit in."""
    while True:
        wider = spans
        for sink in sinks:
            wider = sink.covered(wider)
        if wider == spans:
            return spans
        spans = wider


def landed_units(path: str, spans: Spans) -> list[Unit]:
    """Landed files of these partitions, a unit each."""
    root = Path(path.removeprefix("file:"))
    return [
        Unit(str(file.path), {place: [(file.start, file.end)]})
        for place in spans
        for file in landed(root, place)
    ]


def times_of(bounds: Mapping[str, str]) -> Times:
    """Which windows a range is about. Raises ConfigError for offsets: they cut windows."""
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


def rows_of(form: PipelineForm, records: DataFrame, decode: Decode) -> tuple[DataFrame, DataFrame | None]:
    """What is done to records, of a stream or a range: rows, and what is refused."""
    keeps = can_be_refused(form)
    rows = decoded(records, decode, keeps_refused=keeps)
    transform = form.transform
    if transform.arrow:
        rows = with_arrow(rows, transform.arrow, transform.arrow_schema, keeps_refused=keeps)
    good, bad = split(rows, keeps_refused=keeps)
    if transform.sql:
        good.createOrReplaceTempView(VIEW)
        good = good.sparkSession.sql(transform.sql)
    if transform.python:
        good = loaded(transform.python)(good)
    return (good if form.window else with_date(good, form.sink.partition_by)), bad


def only(rows: DataFrame, wanted: Spans) -> DataFrame:
    """The rows of some of the records."""
    return rows.where(records_predicate(wanted))


class _Stream:
    """The queries of a pipeline, being started."""

    def __init__(
        self, form: PipelineForm, spark: SparkSession, state: State, trigger: Trigger | None
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
                self._state.path,
                trigger=self._trigger,
                name=self.name,
                compact_after=form.sink.compact_after,
            )
            return [query]
        if form.window is None and form.sink.format is not SinkFormat.TOPIC:
            return [self._started(self._records(form.source), self._write_rows, self._state)]
        # The stream itself is transformed, so what it refuses needs a query of its own.
        state = State(self._state.path / REFUSED)
        source = offsets.pinned(form.source, self._state) if can_be_refused(form) else form.source
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

    def _keep_bad(self, rows: DataFrame, number: int, state: State) -> None:
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
            if window.emit is Emit.CLOSED:
                return self._sent(totals)
        sink = totals_sink(form.sink, form.source, window)

        def write(changed: DataFrame, number: int) -> None:
            sink.merge(changed, self._batch(self._state, number))

        return self._started(totals, write, self._state, mode)

    def _sent(self, rows: DataFrame) -> StreamingQuery:
        writer = as_records(rows).writeStream.format("ottla").queryName(self.name)
        writer = writer.options(**topic_options(self._form.sink, self._form.source))
        return self._triggered(writer, self._state)

    def _started(self, rows: DataFrame, write: Write, state: State, mode: str = "append") -> StreamingQuery:
        def guarded(batch: DataFrame, number: int) -> None:
            with self.busy:
                write(batch, number)

        writer = rows.writeStream.foreachBatch(guarded).outputMode(mode)
        return self._triggered(writer.queryName(self.name) if state is self._state else writer, state)

    def _triggered(self, writer: Any, state: State) -> StreamingQuery:
        if self._trigger is not None:
            writer = writer.trigger(**self._trigger)
        query: StreamingQuery = writer.option("checkpointLocation", str(state.path)).start()
        return query

    @staticmethod
    def _batch(state: State, number: int) -> Batch:
        return Batch(state.query_id(), number, state.spans(number))

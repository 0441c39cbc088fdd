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
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ottla.model.errors import ConfigError
from ottla.spark.landing import land
from ottla.spark.landing_files import landed
from ottla.spark.locations import location
from ottla.spark.pipeline import offsets
from ottla.spark.pipeline.aggregates import Times
from ottla.spark.pipeline.checks import Analysed, analysed, check_sinks, problems
from ottla.spark.pipeline.decoding import with_schemas
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.guarantee import guaranteed
from ottla.spark.pipeline.ranges import ending, starting
from ottla.spark.pipeline.reading import ranges
from ottla.spark.pipeline.run import PipelineRun, Recorder
from ottla.spark.pipeline.sink_form import SinkFormat
from ottla.spark.pipeline.sinks import RowSink, letter_sink, row_sinks, totals_sink
from ottla.spark.pipeline.spans import Spans
from ottla.spark.pipeline.state import PipelineState
from ottla.spark.pipeline.status import PipelineStatus, status_of
from ottla.spark.pipeline.steps import rows_of, written
from ottla.spark.pipeline.stream import PipelineStream, Trigger
from ottla.spark.pipeline.units import Unit, extended
from ottla.spark.pipeline.windows import aggregated, with_date, within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


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
        """Make a pipeline from a TOML file. Raises ConfigError."""
        return cls(PipelineForm.read(path))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Make a pipeline from a dictionary with the content of such a file. Raises ConfigError."""
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
            return offsets.of_stream(self.form.source_options, self.state(checkpoint))
        bounds = {**(starting(start, "start") if start else {}), **(ending(end, "end") if end else {})}
        spans = offsets.of_range(self.form.source_options, bounds)
        return [
            offsets.Reach(topic_partition, first, last) for topic_partition, ((first, last),) in spans.items()
        ]

    def problems(self, checkpoint: str | Path | None = None) -> list[str]:
        """Return a line for each problem that would make a run fail and that is known without Spark."""
        return problems(self.form, self.state(checkpoint))

    def analysed(
        self, spark: SparkSession, checkpoint: str | Path | None = None, *, sample: int = 0
    ) -> Analysed:
        """Let Spark analyse every step before anything runs; with `sample`, show that many rows of
        real data.
        """
        spans = offsets.of_range(self.form.source_options, {}) if sample else {}
        return analysed(self.form, spark, self.state(checkpoint), spans, sample)

    def status(self, checkpoint: str | Path | None = None) -> PipelineStatus:
        """Offsets, lag and the last batches. Needs no Spark. Raises ConfigError."""
        state = self.state(checkpoint)
        if state is None:
            raise ConfigError("which checkpoint? Give one")
        return status_of(state, self.form.source_options)

    # --- online

    def online(
        self, spark: SparkSession, checkpoint: str | Path | None = None, *, trigger: Trigger | None = None
    ) -> PipelineRun:
        """Start the stream. `trigger` is Spark's: {"availableNow": True}, {"processingTime": "9 seconds"}."""
        state = self.state(checkpoint)
        if state is None:
            raise ConfigError("a stream needs a checkpoint, the directory that it continues from: give one")
        check_sinks(self.form)
        stream = PipelineStream(guaranteed(self.form), spark, state, trigger)
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
        if bounds and form.keeps_state:
            raise ConfigError(
                "joins and deduplicate_by look at records of any time: a range would cut them; run without it"
            )
        if form.window:
            return self._offline_windows(form, spark, checkpoint, bounds)
        reach = offsets.of_range(form.source_options, bounds)
        if not reach:
            log.info("there is nothing to read")
            return reach
        if form.sink.format is SinkFormat.LANDING:
            covered = extended(reach, landed_units(form.sink.path, reach))
            offsets.check_still_there(form.source_options, covered, reach)
            land(spark, {**offsets.exactly(form.source, covered), **form.sink.options}, form.sink.path)
            return covered
        sinks = row_sinks(form)
        letters = [letter_sink(form.dead_letters, form.source)] if form.dead_letters else []
        covered = covered_by([*sinks, *letters], reach)
        offsets.check_still_there(form.source_options, covered, reach)
        decodes = with_schemas(form, spark, self.state(checkpoint))
        rows, bad = rows_of(form, ranges(spark, form.source_options, covered), decodes)
        for sink, form_of_sink in zip(sinks, form.sinks, strict=True):
            sink.replace(written(rows, form_of_sink), covered, is_all=not bounds)
        for sink in letters:
            if bad is not None:
                sink.replace(bad, covered, is_all=not bounds)
        return covered

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
        begin = {k: v for k, v in bounds.items() if not k.startswith("ending")}
        reach = offsets.of_range(form.source_options, begin)
        if not reach:
            log.info("there is nothing to read")
            return reach
        decodes = with_schemas(form, spark, self.state(checkpoint))
        good, _ = rows_of(form, ranges(spark, form.source_options, reach), decodes)
        totals = within(aggregated(good, form.window), times)
        for which, sink in enumerate(form.sinks):
            totals_sink(form, which).replace(with_date(totals, sink.partition_by), times)
        if form.dead_letters:
            letters = letter_sink(form.dead_letters, form.source)
            covered = covered_by([letters], reach)
            offsets.check_still_there(form.source_options, covered, reach)
            _, bad = rows_of(form, ranges(spark, form.source_options, covered), decodes)
            if bad is not None:
                letters.replace(bad, covered, is_all=times.is_all)
        return reach


def covered_by(sinks: Sequence[RowSink], spans: Spans) -> Spans:
    """Return the range, widened so that it cuts no unit of any table."""
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
    """Return the windows that a range covers.

    Raises ConfigError for a range of offsets: it would cut windows.
    """
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

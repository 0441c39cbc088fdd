"""What a pipeline does with records, step by step: the same for a stream, a range, and a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.model.errors import ConfigError
from ottla.spark.pipeline.decode_form import Decode
from ottla.spark.pipeline.decoding import can_be_refused, decoded, explained
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.functions import loaded, split, with_arrow
from ottla.spark.pipeline.repeats import without_repeats
from ottla.spark.pipeline.sink_form import SinkForm
from ottla.spark.pipeline.source_form import VIEW
from ottla.spark.pipeline.windows import aggregated, with_date

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class PipelineStep(NamedTuple):
    """The result of a step: rows, and the refused records (None if they are not kept)."""

    name: str
    rows: DataFrame
    refused: DataFrame | None = None


def steps_of(
    form: PipelineForm, records: Sequence[DataFrame], decodes: Sequence[Decode]
) -> Iterator[PipelineStep]:
    """Each step of the pipeline, up to the rows that windows count or that are written.

    `records` and `decodes` are those of each source.
    """
    transform = form.transform
    refused: DataFrame | None = None
    for source, rows, decode in zip(form.sources, records, decodes, strict=True):
        name = "" if source.name == VIEW else f" {source.name}"
        keeps = can_be_refused(form)
        marked, reason = decoded(rows, decode, keeps_refused=keeps), explained(decode)
        if transform.arrow:
            yield PipelineStep(f"decode{name}", *split(marked, reason, keeps_refused=keeps))
            marked = with_arrow(marked, transform.arrow, transform.arrow_schema, keeps_refused=keeps)
        good, bad = split(marked, reason, keeps_refused=keeps)
        refused = bad if refused is None or bad is None else refused.unionByName(bad)
        if source.watermark:
            good = good.withWatermark("timestamp", source.watermark)
        good.createOrReplaceTempView(source.name)
        yield PipelineStep(f"{'arrow' if transform.arrow else 'decode'}{name}", good, refused)
    if transform.sql:
        good = good.sparkSession.sql(transform.sql)
        yield PipelineStep("sql", good, refused)
    if transform.python:
        made = loaded(transform.python)(good)
        if not hasattr(made, "schema"):
            raise ConfigError(
                f"[transform] python {transform.python} returned {type(made).__name__}: a DataFrame is wanted"
            )
        good = made
        yield PipelineStep("python", good, refused)
    if transform.deduplicate_by:
        yield PipelineStep("once", without_repeats(good, transform), refused)


def rows_of(
    form: PipelineForm, records: Sequence[DataFrame], decodes: Sequence[Decode]
) -> tuple[DataFrame, DataFrame | None]:
    """Process records, of a stream or a range: the rows, and the refused records."""
    *_, last = steps_of(form, records, decodes)
    return last.rows, last.refused


def written(rows: DataFrame, sink: SinkForm) -> DataFrame:
    """Return the rows and columns that a sink gets."""
    if sink.sql:
        rows.createOrReplaceTempView(VIEW)
        rows = rows.sparkSession.sql(sink.sql)
    return with_date(rows, sink.partition_by)


class PipelineResult(NamedTuple):
    """What a sink gets. The name is empty if it is the rows of the last step."""

    name: str
    sink: SinkForm
    rows: Callable[[], DataFrame]


def results_of(form: PipelineForm, rows: DataFrame) -> Iterator[PipelineResult]:
    """Yield what each sink gets of the rows of the last step."""
    for number, sink in enumerate(form.sinks, 1):
        name = "write" if len(form.sinks) == 1 else f"write {number}"
        is_new = bool(sink.partition_by or sink.sql)
        if form.window:
            name, is_new = "window", number == 1  # all sinks get the same totals
        yield PipelineResult(name if is_new else "", sink, partial(_result, form, rows, sink))


def _result(form: PipelineForm, rows: DataFrame, sink: SinkForm) -> DataFrame:
    if form.window:
        return with_date(aggregated(rows, form.window), sink.partition_by)
    return written(rows, sink)

"""What a pipeline does with records, step by step: the same for a stream, a range, and a check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.spark.pipeline.decode_form import Decode
from ottla.spark.pipeline.decoding import can_be_refused, decoded, explained
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.functions import loaded, split, with_arrow
from ottla.spark.pipeline.windows import aggregated, with_date

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VIEW = "records"


class Step(NamedTuple):
    """What a step gives: rows, and the refused records (None if they are not kept)."""

    name: str
    rows: DataFrame
    refused: DataFrame | None = None


def steps_of(form: PipelineForm, records: DataFrame, decode: Decode) -> Iterator[Step]:
    """Each step of the pipeline, up to the rows that windows count or that are written."""
    keeps = can_be_refused(form)
    transform = form.transform
    rows = decoded(records, decode, keeps_refused=keeps)
    reason = explained(decode)
    if transform.arrow:
        yield Step("decode", *split(rows, reason, keeps_refused=keeps))
        rows = with_arrow(rows, transform.arrow, transform.arrow_schema, keeps_refused=keeps)
    good, refused = split(rows, reason, keeps_refused=keeps)
    yield Step("arrow" if transform.arrow else "decode", good, refused)
    if transform.sql:
        good.createOrReplaceTempView(VIEW)
        good = good.sparkSession.sql(transform.sql)
        yield Step("sql", good, refused)
    if transform.python:
        good = loaded(transform.python)(good)
        yield Step("python", good, refused)


def rows_of(form: PipelineForm, records: DataFrame, decode: Decode) -> tuple[DataFrame, DataFrame | None]:
    """Process records, of a stream or a range: the rows, and the refused records."""
    *_, last = steps_of(form, records, decode)
    return (last.rows if form.window else with_date(last.rows, form.sink.partition_by)), last.refused


def all_steps(form: PipelineForm, records: DataFrame, decode: Decode) -> Iterator[Step]:
    """The same, with windows and the columns that the sink gets."""
    last: Step | None = None
    for last in steps_of(form, records, decode):
        yield last
    assert last is not None
    if form.window:
        yield Step("window", with_date(aggregated(last.rows, form.window), form.sink.partition_by))
    elif form.sink.partition_by:
        yield Step("write", with_date(last.rows, form.sink.partition_by))

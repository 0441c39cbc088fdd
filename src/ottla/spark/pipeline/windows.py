"""Totals by time: the same aggregation over a stream (with state and a watermark) and over a range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from ottla.model.errors import ConfigError
from ottla.spark.pipeline.aggregates import WINDOW_END, WINDOW_START, Times
from ottla.spark.pipeline.form import Emit, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATE = "date"
_TIMES = (WINDOW_START, "timestamp")


def aggregated(rows: DataFrame, window: Window) -> DataFrame:
    """A row for each window and group: window_start, window_end, the groups, the aggregates."""
    wanted = {window.time, *window.group_by}
    missing = wanted - set(rows.columns)
    if missing:
        raise ConfigError(
            f"[window] {', '.join(sorted(missing))}: no such column; there are {', '.join(rows.columns)}"
        )
    if window.watermark:
        rows = rows.withWatermark(window.time, window.watermark)
    span = F.window(F.col(window.time), window.duration, window.slide or None)
    totals = rows.groupBy(span.alias("window"), *window.group_by).agg(*map(F.expr, window.aggregates))
    return totals.selectExpr(
        f"window.start as {WINDOW_START}",
        f"window.end as {WINDOW_END}",
        *(f"`{name}`" for name in totals.columns if name != "window"),
    )


def output_mode(window: Window | None) -> str:
    """Spark's output mode of a stream of totals, or of rows."""
    return "update" if window and window.emit is Emit.UPDATES else "append"


def keys_of(window: Window) -> tuple[str, ...]:
    """The columns that identify a row of totals."""
    return (WINDOW_START, *window.group_by)


def within(totals: DataFrame, times: Times) -> DataFrame:
    """Only the windows that begin within `times`."""
    if times.start is not None:
        totals = totals.where(F.col(WINDOW_START) >= F.lit(times.start))
    if times.end is not None:
        totals = totals.where(F.col(WINDOW_START) < F.lit(times.end))
    return totals


def with_date(rows: DataFrame, partition_by: tuple[str, ...]) -> DataFrame:
    """Add a column `date`, from the rows' time, if the table is partitioned by it."""
    if DATE not in partition_by or DATE in rows.columns:
        return rows
    time = next((name for name in _TIMES if name in rows.columns), None)
    if time is None:
        raise ConfigError(
            "[sink] partition_by has date, and rows have neither date nor timestamp: keep timestamp in the"
            " transform, or make a column date"
        )
    return rows.withColumn(DATE, F.to_date(F.col(time)))

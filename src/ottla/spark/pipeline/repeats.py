"""Rows that were written several times, left out: the same over a stream (with state) and over a range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from ottla.model.errors import ConfigError
from ottla.spark.pipeline.form import Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RANK = "_ottla_rank"


def without_repeats(rows: DataFrame, transform: Transform) -> DataFrame:
    """Return one row of each key: of a stream the first that comes, of a range the one with the lowest time.

    A stream forgets a key when the watermark has passed its time by the watermark's delay.
    """
    keys, time = list(transform.deduplicate_by), transform.time
    missing = {*keys, time} - set(rows.columns)
    if missing:
        raise ConfigError(
            f"[transform] deduplicate_by and time: no column {', '.join(sorted(missing))}; there are"
            f" {', '.join(rows.columns)}"
        )
    if rows.isStreaming:
        return rows.withWatermark(time, transform.watermark).dropDuplicatesWithinWatermark(keys)
    ranked = rows.withColumn(_RANK, F.row_number().over(Window.partitionBy(*keys).orderBy(time)))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK)

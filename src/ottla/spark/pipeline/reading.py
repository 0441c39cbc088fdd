"""The records of each source as DataFrames: as streams, over a range, or none at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.spark.data_source import schema_of
from ottla.spark.options import SOURCE_OPTIONS, parse_options
from ottla.spark.pipeline import offsets
from ottla.spark.pipeline.spans import Spans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Source = Mapping[str, str]


def streams(spark: SparkSession, sources: Sequence[Source]) -> list[DataFrame]:
    """A stream for each source."""
    return [spark.readStream.format("ottla").options(**source).load() for source in sources]


def ranges(spark: SparkSession, sources: Sequence[Source], spans: Spans) -> list[DataFrame]:
    """The records of the spans, for each source its own."""
    return [
        spark.read.format("ottla").options(**offsets.exactly(source, share)).load()
        if share
        else nothing(spark, source)
        for source, share in zip(sources, offsets.shares(sources, spans), strict=True)
    ]


def nothing(spark: SparkSession, source: Source) -> DataFrame:
    """No records, with the source's columns."""
    return spark.createDataFrame([], schema_of(parse_options(SOURCE_OPTIONS, source)))


def nothing_streamed(spark: SparkSession, source: Source) -> DataFrame:
    """Return no records as a stream, with the source's columns. It asks no broker."""
    fields = schema_of(parse_options(SOURCE_OPTIONS, source)).fields
    columns = [f"cast(null as {field.dataType.simpleString()}) as `{field.name}`" for field in fields]
    return spark.readStream.format("rate").load().selectExpr(*columns)

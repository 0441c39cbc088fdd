"""Pipeline: topics in, tables and topics out, declared once and run in two ways.

    pipeline = Pipeline.read("orders.toml")
    pipeline.online(spark, checkpoint="state/orders", trigger={"availableNow": True}).awaitTermination()
    pipeline.offline(spark, startingTimestamp="1767225600000", endingTimestamp="1767312000000")

Online is a stream: every record once, from where the checkpoint is. Offline is a bounded range, by offset
or time, and may be run again: it replaces the partitions of the table that it has rows for, or the table
if it has no partitions. Both do the same to a record, so they give the same table. Transforms see one
batch at a time: what is summed up there is summed up within a batch.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from ottla.spark.batch_files import BatchFiles
from ottla.spark.landing import land, land_stream
from ottla.spark.pipeline_form import Decoding, PipelineForm, SinkFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

VIEW = "records"
REFUSED = "_refused"
ONLINE_ONLY = {
    "group.id",
    "maxoffsetspertrigger",
    "maxtriggerdelay",
    "minoffsetspertrigger",
    "startingoffsets",
    "startingoffsetsbytimestamp",
    "startingtimestamp",
}
"""Options of a stream that say nothing about a range."""


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

    # --- the two ways

    def online(
        self, spark: SparkSession, checkpoint: str | Path, *, trigger: Mapping[str, object] | None = None
    ) -> StreamingQuery:
        """Start the stream. `trigger` is Spark's: {"availableNow": True}, {"processingTime": "9 seconds"}."""
        form = self.form
        if form.sink is SinkFormat.LANDING:
            return land_stream(spark, form.source, form.path, checkpoint, trigger=trigger)
        stream = spark.readStream.format("ottla").options(**form.source).load()
        writer = stream.writeStream.foreachBatch(self._write_batch)
        if trigger is not None:
            writer = writer.trigger(**trigger)  # type: ignore[call-overload]
        return writer.option("checkpointLocation", str(checkpoint)).start()

    def offline(self, spark: SparkSession, **bounds: str) -> None:
        """Run over a bounded range: `bounds` are options such as startingOffsets and endingTimestamp."""
        form = self.form
        options = {name: value for name, value in form.source.items() if name.lower() not in ONLINE_ONLY}
        options |= bounds
        if form.sink is SinkFormat.LANDING:
            land(spark, options, form.path)
            return
        good, bad = self._split(self._decoded(spark.read.format("ottla").options(**options).load()))
        self._replace(self._transformed(good), form.path, form.partition_by)
        if bad is not None:
            self._replace(bad, form.dead_letters, ())

    def _write_batch(self, batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        try:
            good, bad = self._split(self._decoded(batch))
            self._append(self._transformed(good), self.form.path, self.form.partition_by, batch_id)
            if bad is not None:
                self._append(bad, self.form.dead_letters, (), batch_id)
        finally:
            batch.unpersist()

    # --- what is done to a record

    def _decoded(self, records: DataFrame) -> DataFrame:
        form = self.form
        if form.decoding is Decoding.BINARY:
            return records
        texts = records.withColumn("key", F.col("key").cast("string"))
        text = F.col("value").cast("string")
        if form.decoding is Decoding.STRING:
            return texts.withColumn("value", text)
        told = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": REFUSED}
        return texts.withColumn("raw", F.col("value")).withColumn(
            "value", F.from_json(text, f"{form.schema}, {REFUSED} string", told)
        )

    def _split(self, decoded: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        """What decodes, and what does not with the reason; None if that is not kept."""
        if self.form.decoding is not Decoding.JSON:
            return decoded, None
        is_bad = F.col("raw").isNotNull() & (F.col("value").isNull() | F.col(f"value.{REFUSED}").isNotNull())
        good = decoded.where(~is_bad).withColumn("value", F.col("value").dropFields(REFUSED)).drop("raw")
        if not self.form.dead_letters:
            return good, None
        reason = F.lit(f"not JSON with the fields {self.form.schema}")
        bad = decoded.where(is_bad).withColumn("value", F.col("raw")).drop("raw")
        return good, bad.withColumn("reason", reason)

    def _transformed(self, rows: DataFrame) -> DataFrame:
        if self.form.sql:
            rows.createOrReplaceTempView(VIEW)
            rows = rows.sparkSession.sql(self.form.sql)
        if self.form.python:
            module, name = self.form.python.split(":")
            rows = getattr(importlib.import_module(module), name)(rows)
        return rows

    # --- where it goes

    def _append(self, rows: DataFrame, path: str, partition_by: tuple[str, ...], batch_id: int) -> None:
        """The rows of a batch; once, also if the batch is repeated."""
        if not path:
            self._send(rows)
            return
        files = BatchFiles(Path(path), batch_id)
        rows.write.mode("overwrite").partitionBy(*partition_by).parquet(str(files.staging))
        log.info("batch %d: %d files into %s", batch_id, files.move_in(), path)

    def _replace(self, rows: DataFrame, path: str, partition_by: tuple[str, ...]) -> None:
        if not path:
            self._send(rows)
            return
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy(*partition_by).parquet(path)

    def _send(self, rows: DataFrame) -> None:
        if self.form.sink is SinkFormat.CONSOLE:
            rows.show(truncate=False)
            return
        options = {name: value for name, value in self.form.source.items() if name.startswith("kafka.")}
        options |= self.form.sink_options or {}
        rows.write.format("ottla").mode("append").options(**options).save()

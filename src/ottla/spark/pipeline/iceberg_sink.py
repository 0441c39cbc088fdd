"""An Iceberg table as a sink of a pipeline: tasks write its data files, the driver commits them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from ottla.model.errors import ConfigError
from ottla.spark.iceberg import DATA, IcebergTable
from ottla.spark.pipeline.sink_form import SinkForm
from ottla.spark.pipeline.spans import Spans, without
from ottla.spark.pipeline.table_files import written_by_tasks
from ottla.spark.pipeline.tables import TableBatch
from ottla.spark.table_columns import PLACE, optional

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)


class IcebergSink:
    """For one thread of the driver."""

    def __init__(self, sink: SinkForm) -> None:
        self._table = IcebergTable(sink.path, sink.options, sink.partition_by)
        self._partition_by = sink.partition_by
        self._compact_after = sink.compact_after

    def missing(self, batch: TableBatch) -> Spans:
        """The records of a batch that are not in the table."""
        left = without(batch.spans, self._table.there(batch.spans))
        if left != batch.spans:
            log.warning(
                "batch %d: %s has some or all of its records already", batch.number, self._table.shown
            )
        return left

    def append(self, rows: DataFrame, batch: TableBatch) -> None:
        """Add the rows of a batch; its spans are what `missing` returned."""
        self._table.add(self._written(rows), batch.spans)
        log.info("batch %d is in %s", batch.number, self._table.shown)
        if self._compact_after and (batch.number + 1) % self._compact_after == 0:
            self._table.compact(self._compact_after)

    def covered(self, spans: Spans) -> Spans:
        """The range itself: exactly these records can be replaced."""
        return spans

    def replace(self, rows: DataFrame, spans: Spans, *, is_all: bool) -> None:
        """Replace the rows of the range; with `is_all`, the whole table."""
        if not is_all and not set(PLACE) <= {field.name for field in rows.schema}:
            raise ConfigError(
                "[sink] format=iceberg: a range replaces rows by their topic, partition and offset; keep"
                " these columns in the transform, or run without --from and --to"
            )
        self._table.replace(self._written(rows), spans, is_all=is_all)

    def _written(self, rows: DataFrame) -> list[str]:
        schema: pa.Schema = to_arrow_schema(rows.schema, timezone="UTC")
        url, table_schema = self._table.prepared(optional(schema))
        files = written_by_tasks(rows, url, DATA, self._partition_by, table_schema)
        return [file.path for file in files]

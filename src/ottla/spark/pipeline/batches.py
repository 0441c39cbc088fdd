"""What is done with one batch of a stream. These objects hold values only: Spark Connect pickles them, and
calls them in a process of its server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ottla.model.errors import ConfigError
from ottla.spark.pipeline.decode_form import Decode
from ottla.spark.pipeline.delta import records_predicate
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.sink_form import SinkFormat
from ottla.spark.pipeline.sinks import RowSink, as_records, compute, letter_sink, row_sinks, totals_sink
from ottla.spark.pipeline.spans import Spans
from ottla.spark.pipeline.state import PipelineState
from ottla.spark.pipeline.steps import rows_of, written
from ottla.spark.pipeline.tables import TableBatch
from ottla.spark.pipeline.windows import keys_of, with_date

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """Writes batches. Each sink leaves out the records that it has, so that a repeated batch is
    written once.
    """

    form: PipelineForm
    decodes: Sequence[Decode]
    state: PipelineState

    def write_records(self, records: DataFrame, number: int) -> None:
        """Process the records of the only source, and write the rows and what is refused."""
        form, batch = self.form, self._batch(number)
        with _kept(records, is_read_again=bool(form.dead_letters) or len(form.sinks) > 1):
            whole = rows_of(form, [records], self.decodes)
            sinks = row_sinks(form)
            for sink, form_of_sink in zip(sinks, form.sinks, strict=True):
                missing = sink.missing(batch)
                if missing:
                    rows, _ = whole if missing == batch.spans else self._part(records, missing)
                    sink.append(written(rows, form_of_sink), replace(batch, spans=missing))
            if whole[1] is not None:
                letters = self._letters()
                missing = letters.missing(batch)
                _, bad = whole if missing == batch.spans else self._part(records, missing)
                if missing and bad is not None:
                    letters.append(bad, replace(batch, spans=missing))

    def _part(self, records: DataFrame, spans: Spans) -> tuple[DataFrame, DataFrame | None]:
        return rows_of(self.form, [only(records, spans)], self.decodes)

    def write_rows(self, rows: DataFrame, number: int) -> None:
        """Write rows of a stream that keeps state. A table has either all records of such a batch or none."""
        batch = self._batch(number)
        is_done = False
        with _kept(rows, is_read_again=len(self.form.sinks) > 1):
            for sink, form_of_sink in zip(row_sinks(self.form), self.form.sinks, strict=True):
                missing = sink.missing(batch)
                if missing and missing != batch.spans:
                    raise ConfigError(
                        f"{form_of_sink.path} has a part of batch {number}, by a range or another stream:"
                        " joins and deduplicate_by need whole batches; take a new checkpoint and another path"
                    )
                if missing:
                    sink.append(written(rows, form_of_sink), batch)
                    is_done = True
            if not is_done:
                compute(rows)

    def write_totals(self, totals: DataFrame, number: int) -> None:
        """Write the totals that a batch has changed."""
        form, window, batch = self.form, self.form.window, self._batch(number)
        assert window is not None
        with _kept(totals, is_read_again=len(form.sinks) > 1):
            for which, sink in enumerate(form.sinks):
                rows = with_date(totals, sink.partition_by)
                if sink.format is SinkFormat.TOPIC:
                    rows = as_records(rows, keys_of(window))
                totals_sink(form, which).merge(rows, batch)

    def write_letters(self, rows: DataFrame, number: int) -> None:
        """Write records that were refused."""
        sink, batch = self._letters(), self._batch(number)
        missing = sink.missing(batch)
        if missing:
            sink.append(only(rows, missing), replace(batch, spans=missing))

    def _letters(self) -> RowSink:
        assert self.form.dead_letters
        return letter_sink(self.form.dead_letters, self.form.source)

    def _batch(self, number: int) -> TableBatch:
        return TableBatch(self.state.query_id(), number, self.state.spans(number))


def only(rows: DataFrame, wanted: Spans) -> DataFrame:
    """Only the rows of these records."""
    return rows.where(records_predicate(wanted))


@contextmanager
def _kept(rows: DataFrame, *, is_read_again: bool) -> Iterator[None]:
    """Compute rows once inside the block, if they are read several times."""
    if is_read_again:
        rows.persist()
    try:
        yield
    finally:
        if is_read_again:
            rows.unpersist()

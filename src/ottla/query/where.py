"""A condition in SQL that is tested batch by batch, so that the first hits appear at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.query.engine import Engine
from ottla.query.record_view import COLUMNS, sampled_columns, view_batch, view_columns
from ottla.query.statements import table_uses
from ottla.schemas.json_texts import JsonTexts

PART_LIMIT_S = 30.0
"""How long a condition may take for one part of a scan: a condition must not occupy a thread for ever."""


class Where:
    """A condition over the columns of records and the fields of values.

    `texts`: what the value of every matching record contains. For one thread.
    """

    def __init__(
        self,
        condition: str,
        topic: str,
        properties: Mapping[str, object],
        json_texts: JsonTexts | None = None,
    ) -> None:
        self._condition = condition
        self._engine = Engine()
        self._columns = columns = sampled_columns(topic, properties, json_texts)
        # The condition is put in parentheses, so that more than one expression does not parse.
        statement = f"select 1 from records where ({condition}\n)"
        tree = self._engine.tree(statement, condition)
        uses = list(table_uses(tree))
        is_condition = bool(condition.strip()) and tree["statements"][0]["node"]["type"] == "SELECT_NODE"
        if len(uses) != 1 or not is_condition:
            raise ConfigError(f"where={condition!r:.200}: give one condition, which reads no other tables")
        self.texts = columns.conditions(uses[0].where, self._engine.value).texts
        quoted = self._engine.with_offset_quoted(f"({condition}\n)")
        self._statement = (
            f"select row from (select {view_columns(columns)} from (select * from records_in)) where {quoted}"
        )
        self._test()

    def _test(self) -> None:
        """Find wrong names and types before anything is read."""
        empty = pa.RecordBatch.from_pylist([], _RECORDS)
        self.rows(0, empty)

    def rows(self, partition: int, records: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """The numbers of the records that meet the condition. Raises ConfigError or RequestTimedOut."""
        view = view_batch(partition, records, self._columns)
        numbers = pa.array(np.arange(view.num_rows, dtype=np.int64))
        self._engine.register("records_in", pa.table([*view.columns, numbers], names=[*COLUMNS, "row"]))
        with self._engine.limited(PART_LIMIT_S):
            try:
                rows = self._engine.reader(self._statement, 1 << 16, self._condition).read_all().column("row")
            except self._engine.error_types as error:
                raise self._engine.translated(error, self._condition) from error
        return np.sort(rows.to_numpy())


_RECORDS = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)

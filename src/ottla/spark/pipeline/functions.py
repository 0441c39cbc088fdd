"""The user's functions: over a DataFrame, and over Arrow batches in the executors.

If a function fails for a batch, it is called again for each row alone. Rows that it fails for are refused
with its error; the others are kept.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType, _parse_datatype_string

from ottla.model.errors import ConfigError
from ottla.spark.pipeline.decoding import RAW, RAW_KEY, REASON
from ottla.spark.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Function = Callable[[Any], Any]
MADE = "_made"
LETTER = (RAW_KEY, "topic", "partition", "offset", "timestamp", RAW)
_OWN = {RAW, RAW_KEY, REASON}
"""The columns that are kept of a refused record."""


def loaded(name: str) -> Function:
    """Import the function named "module:function". Raises ConfigError."""
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"[transform] {name}: {error}; is it on PYTHONPATH?") from error
    if not callable(function):
        raise ConfigError(f"[transform] {name} is no function")
    return function  # type: ignore[no-any-return]


def with_arrow(rows: DataFrame, name: str, schema: str, *, keeps_refused: bool) -> DataFrame:
    """The function's rows in a column MADE, and RAW and REASON of refused rows."""
    loaded(name)  # raises here and not in the executors
    made = _parse_datatype_string(schema)
    letters = [field for field in rows.schema.fields if field.name in LETTER]
    whole = StructType([StructField(MADE, made), *letters, StructField(REASON, StringType())])
    arrow = to_arrow_schema(whole, timezone="UTC")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        function = loaded(name)
        for batch in batches:
            yield from applied(function, batch, arrow, keeps_refused=keeps_refused)

    return _mapped(rows, run, whole)


def _mapped(
    rows: DataFrame, run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: StructType
) -> DataFrame:
    """Like rows.mapInArrow(run, schema), which demands pandas without using it. Spark Connect has pandas."""
    if is_remote(rows.sparkSession):
        return rows.mapInArrow(run, schema)
    from pyspark.sql.classic.dataframe import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    function = UserDefinedFunction(run, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column: Any = function(*(rows[name] for name in rows.columns))
    plan: Any = rows
    return DataFrame(plan._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)  # noqa: FBT003


def applied(
    function: Function, batch: pa.RecordBatch, schema: pa.Schema, *, keeps_refused: bool
) -> Iterator[pa.RecordBatch]:
    """Apply the function to a batch. Yields its rows, and the refused ones."""
    is_good = pc.is_null(batch.column(REASON))
    bad = batch.filter(pc.invert(is_good))
    if bad.num_rows:
        yield _letters(bad, schema)
    good = batch.filter(is_good)
    given = good.select([name for name in good.schema.names if name not in _OWN])
    if not given.num_rows:
        return
    try:
        yield _made(function(given), schema)
    except Exception:
        if not keeps_refused:
            raise
        for number in range(given.num_rows):
            row = slice(number, number + 1)
            try:
                yield _made(function(given[row]), schema)
            except Exception as error:  # noqa: BLE001 - whatever the user's code raises is the reason
                text = f"{type(error).__name__}: {error}"
                yield _letters(
                    good[row].set_column(
                        good.schema.get_field_index(REASON), REASON, pa.array([text], pa.string())
                    ),
                    schema,
                )


def _made(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    fields = list(schema.field(MADE).type)
    missing = [field.name for field in fields if field.name not in batch.schema.names]
    if missing:
        there = ", ".join(batch.schema.names)
        raise ConfigError(
            f"[transform] arrow: arrow_schema has {', '.join(missing)}, and the function gave {there}"
        )
    arrays = [batch.column(field.name).cast(field.type) for field in fields]
    made = pa.StructArray.from_arrays(arrays, fields=fields)
    nulls = [pa.nulls(len(made), field.type) for field in list(schema)[1:]]
    return pa.RecordBatch.from_arrays([made, *nulls], schema=schema)


def _letters(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    others = [rows.column(field.name).cast(field.type) for field in list(schema)[1:]]
    nothing = pa.nulls(rows.num_rows, schema.field(MADE).type)
    return pa.RecordBatch.from_arrays([nothing, *others], schema=schema)


def split(rows: DataFrame, reason: Column, *, keeps_refused: bool) -> tuple[DataFrame, DataFrame | None]:
    """The good rows, and the refused records with their reasons (None if they are not kept)."""
    good = rows.where(F.col(REASON).isNull()) if keeps_refused else rows
    good = good.select(f"{MADE}.*") if MADE in rows.columns else good.drop(*_OWN)
    if not keeps_refused:
        return good, None
    names = {RAW: "value", RAW_KEY: "key"}
    letters = [F.col(name).alias(names.get(name, name)) for name in LETTER if name in rows.columns]
    return good, rows.where(F.col(REASON).isNotNull()).select(*letters, reason.alias("reason"))

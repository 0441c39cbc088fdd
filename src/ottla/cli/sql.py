"""`ottla sql`: a SELECT over topics, groups and lag."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from ottla.cli.connection_options import add_schemas_option, properties_of
from ottla.cli.output import JSON, TABLE, Cell, OutputRows, Parser, new_parser, run_command
from ottla.model.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = "parquet"
SHOWN_MAX = 10_000


def parser() -> Parser:
    """`sql` and its options."""
    parser = new_parser(
        "sql",
        "Run a SELECT over topics, cluster.topics, .offsets, .groups and .lag.",
        more_formats=(PARQUET,),
    )
    parser.add_argument("query", help="\"select … from orders where key = '…' and timestamp > '2026-01-31'\"")
    parser.add_argument("-o", "--output", metavar="FILE", help="where parquet goes")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="end the query after that time")
    add_schemas_option(parser)
    parser.add_argument("--memory", default="1GB", metavar="SIZE", help="what the query may take (1GB)")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Print the result of the query, or write it into a parquet file."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> OutputRows | None:
    from ottla.query.sql import running

    if (options.format == PARQUET) != bool(options.output):
        parser().error("--format parquet and --output FILE go together")
    with running(
        options.query,
        properties_of(options),
        memory_limit=options.memory,
        timeout=options.timeout,
        schemas=options.schemas,
    ) as (schema, batches):
        if options.format == PARQUET:
            _write(options.output, schema, batches)
            return None
        return _rows(schema, batches, options.format)


def _write(path: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetWriter(path, schema) as file:
            for batch in batches:
                file.write_batch(batch)
    except OSError as error:
        raise ConfigError(f"--output {path}: {error}") from error


def _rows(schema: pa.Schema, batches: Iterator[pa.RecordBatch], form: str) -> OutputRows:
    """All rows; a table for people ends after some thousands, and says so."""
    rows = OutputRows(tuple(schema.names))
    for batch in batches:
        columns = [[_cell(value) for value in _values(column)] for column in batch.columns]
        rows.rows += zip(*columns, strict=True)
        if form == TABLE and len(rows.rows) > SHOWN_MAX:
            del rows.rows[SHOWN_MAX:]
            rows.note = (
                f"only the first {SHOWN_MAX:,} rows are shown; --format {JSON} has all, or add a limit"
            )
            break
    return rows


def _values(column: pa.Array) -> list[object]:
    try:
        values: list[object] = column.to_pylist()
    except OverflowError:  # a time after the year 9999, where Python's end
        return [_value(scalar) for scalar in column]
    return values


def _value(scalar: pa.Scalar) -> object:
    try:
        return scalar.as_py()
    except OverflowError:
        return f"{scalar.value} {scalar.type.unit}"


def _cell(value: object) -> Cell:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, datetime | date):
        return value.isoformat()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)

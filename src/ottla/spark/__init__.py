"""Kafka as a Spark source and sink without a jar: format("ottla"), and format("ottla-log") for its files.

    spark.read.format("ottla").option("kafka.bootstrap.servers", "…").option("subscribe", "orders").load()

Spark finds both formats by itself through the packages `pyspark_ottla` and `pyspark_ottla_log`. Option names,
the schema and the offsets' JSON are those of Spark's own Kafka connector.

Pure, without a broker, a file or Spark: `options`, `source_options`, `offset_json`, `positions`,
`admission`, `range_planner`, `data_loss`, `columns`, `row_identity`, `lag`. On the driver:
`cluster` and `group_offsets` call brokers, `stream_planner` answers Spark.
Tables: `locations` (directories and stores), `commits`, `iceberg`; without Spark: `lander`, `raw_tables`.
In the executors: `daemon` (forks the workers), `range_reader`, `landing_files`, `parquet_file`,
`landing_compaction`, most of `writer`. On one machine: `fork_server` and `fork_client` start Spark's Python
processes. What Spark and users hold: `data_source`, `readers`, `log_source`, `landing`, `pipeline` (a
package), `session`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ottla.spark.lag import Lag, lag
from ottla.spark.session import check_installed, session

if TYPE_CHECKING:
    from ottla.spark.landing import land, land_stream
    from ottla.spark.pipeline.pipeline import Pipeline
    from ottla.spark.typed import from_avro, from_json_schema, from_protobuf

__all__ = [
    "Lag",
    "Pipeline",
    "from_avro",
    "from_json_schema",
    "from_protobuf",
    "lag",
    "land",
    "land_stream",
    "session",
]

_LOADED_AT_FIRST_USE = {
    "Pipeline": "ottla.spark.pipeline.pipeline",
    "from_avro": "ottla.spark.typed",
    "from_json_schema": "ottla.spark.typed",
    "from_protobuf": "ottla.spark.typed",
    "land": "ottla.spark.landing",
    "land_stream": "ottla.spark.landing",
}


def __getattr__(name: str) -> object:
    """Import what needs Spark at its first use: workers import this package as well."""
    module = _LOADED_AT_FIRST_USE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_installed()
    return getattr(import_module(module), name)

"""Kafka as a Spark source and sink without a jar: format("ottla"), and format("ottla-log") for its files.

    spark.read.format("ottla").option("kafka.bootstrap.servers", "…").option("subscribe", "orders").load()

Spark finds both formats by itself through the package `pyspark_ottla`. Option names, the schema and the
offsets' JSON are those of Spark's own Kafka connector.

The pure core is `options`, `offset_json`, `positions`, `admission`, `range_planner`, `data_loss`,
`columns` and `row_identity`. `cluster` and `group_offsets` ask brokers on the driver; `range_reader` and
`writer` run in the executors; `data_source` and `log_source` are what Spark sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.spark.session import session

if TYPE_CHECKING:
    from ottla.spark.landing import land, land_stream

__all__ = ["land", "land_stream", "session"]


def __getattr__(name: str) -> object:
    """Load what needs Spark when it is asked for: workers import this package, too."""
    if name in {"land", "land_stream"}:
        from ottla.spark import landing

        return getattr(landing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

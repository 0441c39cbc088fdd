"""Kafka as a Spark source and sink without a jar: format("ottla"), and format("ottla-log") for its files.

    spark.read.format("ottla").option("kafka.bootstrap.servers", "…").option("subscribe", "orders").load()

Spark finds both formats by itself through the package `pyspark_ottla`. Option names, the schema and the
offsets' JSON are those of Spark's own Kafka connector.

The pure core is `options`, `offset_json`, `positions`, `admission`, `range_planner`, `data_loss`,
`columns` and `row_identity`. `cluster` and `group_offsets` ask brokers on the driver; `range_reader` and
`writer` run in the executors; `data_source` and `log_source` are what Spark sees.
"""

from ottla.spark.session import session

__all__ = ["session"]

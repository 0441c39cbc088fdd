"""Where Spark finds format("ottla-log"): it takes one format from each package that begins with pyspark_."""

from ottla.spark.log_source import OttlaLogDataSource as DefaultSource

__all__ = ["DefaultSource"]

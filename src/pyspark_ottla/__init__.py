"""Where Spark finds format("ottla"): it imports the packages whose names begin with pyspark_."""

from ottla.spark.data_source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]

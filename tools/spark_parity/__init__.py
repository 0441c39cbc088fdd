"""Spark's own Kafka connector and format("ottla") on the same topics: see `__main__`."""

"""Consumers: `partition` and `simple` read chosen partitions; `classic` and `coordinated` are in groups."""

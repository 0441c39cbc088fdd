"""Kafka for the tests of other programs: a pytest plugin, for the embedded broker or a real cluster."""

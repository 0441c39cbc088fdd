"""Kafka for the tests of other programs: a pytest plugin (the embedded broker or a real
cluster), and a simulation (`ottla.testing.simulation`)."""

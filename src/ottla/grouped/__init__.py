"""Consumers whose partitions are given to them by a group: the coordinator protocol of Kafka 0.9 and later."""

"""Consumers whose partitions a group gives them: the coordinator protocol of Kafka 0.9 and later."""

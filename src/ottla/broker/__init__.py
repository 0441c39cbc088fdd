"""The embedded broker: what a Kafka client sees, in one Python process."""

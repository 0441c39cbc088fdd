"""Kafka's classic high-level consumer: groups that balance themselves through ZooKeeper."""

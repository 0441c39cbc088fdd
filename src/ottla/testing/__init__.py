"""For tests of programs that use Kafka: a pytest plugin, and a cluster of yours in the broker's place."""

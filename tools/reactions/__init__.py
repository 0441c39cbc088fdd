"""How Kafka's own clients react to every error code in every answer, found by running them."""

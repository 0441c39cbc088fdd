"""Records into Kafka: rows or Arrow columns in, partitioned, batched, sent in order, and told of.

The core (`accumulator`, `partition_queue`, `sequences`, `partitioners`) decides and has no clock, lock or
socket. Around it: the user's threads hand rows in, one thread keeps house, and one thread a broker sends.
"""

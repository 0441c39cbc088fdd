"""Consumer groups (KIP-848), in which the broker assigns partitions.

Start reading at `member` (theory of operation), then `heartbeat` and `subscribing`.
"""

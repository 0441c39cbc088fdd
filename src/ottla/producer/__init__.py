"""Records into Kafka: rows or Arrow columns in, partitioned, batched, sent in order, and told of.

The core (`accumulator`, `partition_queue`, `sequences`, `partitioners`) decides and has no clock, lock or
socket. Around it: user threads hand records in (`inboxes`), one thread a broker sends (`sender`), one asks
about the cluster (`scout`), one watches the time (`upkeep`); `dispatcher` is what they share.
"""

from __future__ import annotations

from ottla.producer.deliveries import BatchDelivery, Delivery, RecordMetadata
from ottla.producer.errors import BufferFull, DeliveryExpired, ProducerClosed, RecordTooLarge
from ottla.producer.producer import Producer

__all__ = [
    "BatchDelivery",
    "BufferFull",
    "Delivery",
    "DeliveryExpired",
    "Producer",
    "ProducerClosed",
    "RecordMetadata",
    "RecordTooLarge",
]

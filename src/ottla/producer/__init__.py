"""Records into Kafka: rows or Arrow columns in, partitioned, batched, sent in order, and told of.

The way of a record, file by file:

    producer            what applications hold; config is what they set, errors what they catch
    rows, parts         one record, and columns, as users give them: checked, measured, cut to fit a batch
    inboxes             a topic's: collects rows, has them placed by partitioners, waits for memory
    accumulator         all partitions' queues, and what goes to which broker when
    partition_queue     one partition's: order, retries, giving up; of batches, by verdicts and sequences
    sender              a thread a broker: encodes (produce_requests), sends, takes the answers
    deliveries          what became of records, and who waits for that

accumulator and what it is made of decide, and have no clock, lock or socket. `dispatcher` is what the threads
share: users', senders, the `scout`, which asks about the cluster, and the `upkeep`, which watches the time.
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

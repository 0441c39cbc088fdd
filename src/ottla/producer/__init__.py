"""Records into Kafka: rows or Arrow columns in; partitioned, batched, sent in order, and acknowledged.

The way of a record, file by file:

    producer            what applications hold; producer_config is what they set
    engine              the owners below and the threads, wired together
    rows, parts         one record, and columns, as users give them: checked, measured, cut to fit a batch
    intake, inboxes     one inbox for each topic: collects rows, partitions them (partitioners)
    column_intake       the same for columns, in steps that fit the memory
    topic_directory     what is known about topics, and the threads that wait for it
    dispatcher          owns the queues of all partitions (accumulator) behind its lock
    sender              a thread for each broker: encodes (produce_requests), sends, reports the answers
    settlement          reports outcomes to submissions (deliveries)
    transactions        begin, commit, abort: tells the coordinators through transaction_link
    transaction_ender   ends transactions that producers have handed over (prepared_transaction)

Two more threads: `metadata_thread` asks about the cluster, `timer_thread` watches the time. Threads call
methods of owners, never their locks. `accumulator`, `partition_queue`, `batches`, `parts`, `sequences` and
`transaction_state` decide; they have no clock, lock, thread or socket, directly or indirectly.
"""

from __future__ import annotations

from ottla.producer.deliveries import BatchDelivery, BufferFull, Delivery, RecordMetadata
from ottla.producer.prepared_transaction import PreparedTransaction
from ottla.producer.producer import Producer
from ottla.producer.transaction_ender import TransactionEnder

__all__ = [
    "BatchDelivery",
    "BufferFull",
    "Delivery",
    "PreparedTransaction",
    "Producer",
    "RecordMetadata",
    "TransactionEnder",
]

"""Values about transactions, as users get them."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.model.topic_partition import TopicAndPartition


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id that a broker coordinates, and the state of its last transaction.

    >>> from ottla.admin import TransactionListing
    >>> TransactionListing("billing-1", coordinator_id=1, producer_id=4000, state="CompleteCommit").state
    'CompleteCommit'
    """

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator knows it.

    `started_ms` is None if no transaction is open. `partitions` are those that it has written to, and that
    have not got their end marker yet.

    >>> from ottla.admin import TransactionDescription
    >>> TransactionDescription("billing-1", 1, "Ongoing", 4000, 0, 60_000, 1_700_000_000_000).partitions
    ()
    """

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicAndPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionProducer:
    """A producer that a partition's leader knows; `start_offset` is that of its open transaction, or None.

    `coordinator_epoch` is -1 if no transaction of this producer has ended here.

    >>> from ottla.admin import PartitionProducer
    >>> PartitionProducer(4000, 0, -1, last_sequence=2, last_timestamp_ms=1_700_000_000_000).start_offset
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    start_offset: int | None = None


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction of a producer in a partition.

    >>> from ottla import TopicAndPartition
    >>> from ottla.admin import OpenTransaction, PartitionProducer
    >>> producer = PartitionProducer(4000, 0, -1, 7, 1_700_000_000_000, start_offset=12)
    >>> OpenTransaction(TopicAndPartition("orders", 0), producer).producer.start_offset
    12
    """

    topic_partition: TopicAndPartition
    producer: PartitionProducer

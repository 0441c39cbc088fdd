"""The records of `__transaction_state`, byte for byte as Kafka writes them.

    key 0         transactional id
    value 0, 1    producer, state, partitions and times of its transaction; 1 has tagged fields (KIP-890)

A null value is a tombstone: the id has expired. Keys of other versions are ignored, values of other versions
are refused. What is written is value 1, as Kafka does from transaction.version 1 on.
"""

from __future__ import annotations

from ottla.broker.coordination.effects import Record
from ottla.broker.transactions.coordinator.state import TransactionState
from ottla.broker.transactions.coordinator.transaction import NEVER, NO_EPOCH, NO_PRODUCER, Transaction
from ottla.model.errors import RemoteProtocolError
from ottla.model.topic_partition import TopicAndPartition, by_topic
from ottla.wire.schema import array, field, int8, int16, int32, int64, string, value
from ottla.wire.versioned_struct import VersionedStructs

KEY_VERSION = 0
VALUE_VERSION = 1

_CODEC = VersionedStructs("__transaction_state", flexible_since=1)
_STATES = tuple(TransactionState)


@value
class TransactionKey:
    transactional_id: str = field(string)


@value
class StoredPartitions:
    topic: str = field(string)
    partition_ids: list[int] = field(array(int32))


@value
class TransactionValue:
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    transaction_timeout_ms: int = field(int32)
    transaction_status: int = field(int8)
    transaction_partitions: list[StoredPartitions] | None = field(array(StoredPartitions), nullable_since=0)
    transaction_last_update_timestamp_ms: int = field(int64)
    transaction_start_timestamp_ms: int = field(int64, default=NEVER)
    previous_producer_id: int = field(int64, since=1, default=NO_PRODUCER, tag=0, ignorable=True)
    next_producer_id: int = field(int64, since=1, default=NO_PRODUCER, tag=1, ignorable=True)
    client_transaction_version: int = field(int16, since=1, tag=2, ignorable=True)
    next_producer_epoch: int = field(int16, since=1, default=NO_EPOCH, tag=3, ignorable=True)


# --- writing --------------------------------------------------------------------------------------------


def transaction_record(transactional_id: str, transaction: Transaction) -> Record:
    """Return the record of a transactional id. An Empty one has no partitions, not even an empty list."""
    topics = [
        StoredPartitions(topic=topic, partition_ids=partitions)
        for topic, partitions in by_topic(transaction.partitions).items()
    ]
    stored = TransactionValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=_STATES.index(transaction.state),
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else topics,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.version,
    )
    return Record(_key(transactional_id), _CODEC.encode(stored, VALUE_VERSION))


def tombstone(transactional_id: str) -> Record:
    """Return the record that deletes a transactional id."""
    return Record(_key(transactional_id), None)


def _key(transactional_id: str) -> bytes:
    return _CODEC.encode(TransactionKey(transactional_id=transactional_id), KEY_VERSION)


# --- reading --------------------------------------------------------------------------------------------


def read(record: Record) -> tuple[str, Transaction | None] | None:
    """Return the transactional id and its transaction, None for a tombstone; None for unknown keys.

    Raises RemoteProtocolError if the bytes are damaged or the value is of an unknown version.
    """
    parts = read_parts(record)
    if parts is None:
        return None
    name, stored = parts
    return name, None if stored is None else _transaction(stored)


def read_parts(record: Record) -> tuple[str, TransactionValue | None] | None:
    """Return the same, with the value as it is stored."""
    if _CODEC.version_of(record.key, "key") != KEY_VERSION:
        return None
    key = _CODEC.decode(TransactionKey, record.key, KEY_VERSION)
    if record.value is None:
        return key.transactional_id, None
    return key.transactional_id, _CODEC.decode(TransactionValue, record.value, VALUE_VERSION)


def _transaction(stored: TransactionValue) -> Transaction:
    if not 0 <= stored.transaction_status < len(_STATES):
        raise RemoteProtocolError(f"__transaction_state: {stored.transaction_status} is not a state")
    return Transaction(
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        updated_ms=stored.transaction_last_update_timestamp_ms,
        state=_STATES[stored.transaction_status],
        partitions=frozenset(
            TopicAndPartition(topic.topic, partition)
            for topic in stored.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        started_ms=stored.transaction_start_timestamp_ms,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        version=stored.client_transaction_version,
    )

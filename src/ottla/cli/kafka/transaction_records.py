"""Records of `__transaction_state` as Kafka 4's tools print them: the formatter of the console consumer, and
the transaction log decoder of kafka-dump-log.
"""

from __future__ import annotations

from ottla.broker.coordination.effects import Record
from ottla.broker.transactions.coordinator.records import TransactionValue, read_parts
from ottla.cli.kafka.offset_records import compact
from ottla.model.errors import OttlaError

FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"

Node = dict[str, object]


def formatted(key: bytes | None, data: bytes | None) -> bytes:
    """The record as the console consumer prints it; nothing without a key. Raises OttlaError."""
    parts = None if key is None else read_parts(Record(key, data))
    if parts is None:
        return b""
    name, value = parts
    stored = None if value is None or data is None else {"version": _version(data), "data": _node(value)}
    return compact({"key": {"type": 0, "data": {"transactionalId": name}}, "value": stored}).encode()


def decoded(key: bytes | None, data: bytes | None, offset: int) -> tuple[str, str | None]:
    """Key and payload as kafka-dump-log prints them."""
    try:
        parts = read_parts(Record(key or b"", data))
    except OttlaError as error:
        return f"Error at offset {offset}, skipping. {error}", None
    if parts is None:
        return f"Unknown record type {_version(key or b'')} at offset {offset}, skipping.", None
    name, value = parts
    text = compact({"type": "0", "data": {"transactionalId": name}})
    if value is None or data is None:
        return text, "<DELETE>"
    return text, compact({"version": str(_version(data)), "data": _node(value)})


def _version(data: bytes) -> int:
    return int.from_bytes(data[:2], "big", signed=True)


def _node(value: TransactionValue) -> Node:
    """The value in the order of Kafka's schema; tagged fields only if they are not the default."""
    partitions = value.transaction_partitions
    topics = [{"topic": row.topic, "partitionIds": row.partition_ids} for row in partitions or ()]
    return {
        "producerId": value.producer_id,
        **_tagged("previousProducerId", value.previous_producer_id, -1),
        **_tagged("nextProducerId", value.next_producer_id, -1),
        "producerEpoch": value.producer_epoch,
        "transactionTimeoutMs": value.transaction_timeout_ms,
        "transactionStatus": value.transaction_status,
        "transactionPartitions": None if partitions is None else topics,
        "transactionLastUpdateTimestampMs": value.transaction_last_update_timestamp_ms,
        "transactionStartTimestampMs": value.transaction_start_timestamp_ms,
        **_tagged("clientTransactionVersion", value.client_transaction_version, 0),
        **_tagged("nextProducerEpoch", value.next_producer_epoch, -1),
    }


def _tagged(name: str, value: int, default: int) -> Node:
    return {} if value == default else {name: value}

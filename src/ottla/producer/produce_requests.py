"""Batches as one Produce request, in a message format and codec that the broker accepts."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.model.errors import LocalProtocolError, OttlaError
from ottla.producer.batches import ProducerBatch
from ottla.producer.parts import joined
from ottla.producer.producer_config import ProducerConfig
from ottla.producer.whole_parts import WholePart
from ottla.records.builder import BATCH_BYTES_MAX, PLAIN, Numbering, Stamp, encode, encode_batch
from ottla.records.compression import Codec
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic

VERSION_MAX = 12  # later versions name topics by ids only
REGISTERED_VERSION_MAX = 11  # later versions add partitions to the transaction
FORMAT_1_SINCE = 2
FORMAT_2_SINCE = 3
ZSTD_SINCE = 7


def message_format(version: int) -> int:
    """Return the message format that a version of Produce carries."""
    if version >= FORMAT_2_SINCE:
        return 2
    return 1 if version >= FORMAT_1_SINCE else 0


def encoded(batch: ProducerBatch, version: int, config: ProducerConfig) -> memoryview:
    """Return the record set of a batch. Raises OttlaError if this broker cannot take it."""
    only, codec, level = batch.parts[0], config.codec, config.level
    stamp = _stamp(batch, is_transactional=config.is_transactional)
    if isinstance(only, WholePart) and _is_taken(only, version):
        return only.stamped(stamp)
    if codec is Codec.ZSTD and version < ZSTD_SINCE:
        raise LocalProtocolError(
            f"{batch}: compression.type=zstd needs Produce {ZSTD_SINCE} (Kafka 2.1); this broker has"
            f" {version}: use lz4"
        )
    magic = message_format(version)
    if magic < 2:
        return _messages(batch, version, magic, codec, level)
    pieces = [part.piece for part in batch.parts]
    return encode_batch(pieces, codec=codec, level=level, stamp=stamp)


def _is_taken(part: WholePart, version: int) -> bool:
    """Whether this version can carry the part unchanged."""
    return part.magic == message_format(version) and (part.codec is not Codec.ZSTD or version >= ZSTD_SINCE)


def _stamp(batch: ProducerBatch, *, is_transactional: bool) -> Stamp:
    if batch.identity is None:
        return PLAIN
    return Stamp(
        producer_id=batch.identity.producer_id,
        producer_epoch=batch.identity.epoch,
        base_sequence=batch.base_sequence,
        transactional=is_transactional,
    )


def _messages(batch: ProducerBatch, version: int, magic: int, codec: Codec, level: int | None) -> memoryview:
    """Return the batch as messages of format 0 or 1."""
    columns, wall_ms = joined(batch.parts)
    if "headers" in columns.schema.names:
        if len(columns.column("headers").flatten()):
            raise LocalProtocolError(
                f"{batch}, some of them with headers, which need Produce {FORMAT_2_SINCE} (Kafka 0.11); this"
                f" broker has {version}, and message format {magic} has none: send them without"
            )
        columns = columns.drop_columns(["headers"])
    views = encode(
        columns,
        magic=magic,
        codec=codec,
        level=level,
        batch_bytes=BATCH_BYTES_MAX,
        numbering=Numbering.REQUEST,
        timestamp_ms=wall_ms,
    )
    if len(views) != 1:
        raise LocalProtocolError(f"{batch}: they take more than {BATCH_BYTES_MAX:,} bytes; lower batch.size")
    return views[0]


def produce_request(
    batches: Iterable[ProducerBatch], version: int, config: ProducerConfig
) -> tuple[ProduceRequest, list[ProducerBatch], list[tuple[ProducerBatch, OttlaError]]]:
    """Return a request, the batches in it, and the batches that this broker cannot take, with the error."""
    topics: dict[str, list[ProducePartition]] = {}
    carried: list[ProducerBatch] = []
    unsendable: list[tuple[ProducerBatch, OttlaError]] = []
    for batch in batches:
        try:
            records = encoded(batch, version, config)
        except OttlaError as error:
            unsendable.append((batch, error))
            continue
        topics.setdefault(batch.topic, []).append(ProducePartition(index=batch.partition, records=records))
        carried.append(batch)
    data = [ProduceTopic(name=name, partition_data=partitions) for name, partitions in topics.items()]
    request = ProduceRequest(
        transactional_id=config.transactional_id,
        acks=config.acks,
        timeout_ms=config.client.request_timeout_ms,
        topic_data=data,
    )
    return request, carried, unsendable

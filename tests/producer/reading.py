"""Reads a topic back, whole, through ottla's own connections and decoder."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.client_config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.records.messages import MessageAndOffset, MessageSet
from ottla.records.reader import decode
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH_MAX = 12  # later versions name topics by ids


class Read(NamedTuple):
    """A record as a test looks at it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def read_topic(bootstrap: str, topic: str, **properties: object) -> dict[int, list[Read]]:
    """Every record of every partition, in order."""
    config = ClientConfig.from_properties({"bootstrap.servers": bootstrap, **properties})
    with ClusterMetadata(config) as metadata, ConnectionPool(config, metadata) as pool:
        found = {}
        for partition in metadata.partitions(topic):
            leader = metadata.leader(topic, partition.index).node.broker_id
            found[partition.index] = _read_partition(pool, leader, topic, partition.index)
        return found


def _read_partition(pool: ConnectionPool, leader: int, topic: str, partition: int) -> list[Read]:
    records: list[Read] = []
    offset = 0
    while True:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=8 << 20)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=1,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        answer = pool.to(leader).call(request, at_most=FETCH_MAX)
        told = answer.responses[0].partitions[0]
        assert told.error_code == 0, told.error_code
        data = bytes(told.records or b"")
        decoded = decode(data, from_offset=offset, headers=True)
        assert decoded.damage is None, decoded.damage
        if not decoded.valid_bytes:
            assert offset == told.high_watermark
            return records
        found = MessageSet(data[: decoded.valid_bytes])
        records += [_read(one) for one in found if one.offset >= offset]
        offset = decoded.next_offset


def _read(one: MessageAndOffset) -> Read:
    message = one.message
    return Read(one.offset, message.key, message.value, message.timestamp_ms, message.headers)


def values(bootstrap: str, topic: str, **properties: object) -> dict[int, list[bytes | None]]:
    """The values alone."""
    found = read_topic(bootstrap, topic, **properties)
    return {partition: [one.value for one in records] for partition, records in found.items()}

"""Produce, Fetch and the questions about offsets, in few words and any version; topics go by name always."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.records.messages import MessageSet, to_messages
from ottla.wire.api.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.api.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)
from ottla.wire.declared_class import replaced
from tests.broker.wire_client import Client
from tests.log.record_sets import Row, batch

PRODUCE_NEWEST, FETCH_NEWEST, LIST_OFFSETS_NEWEST = 13, 18, 10
PRODUCE_IDS, FETCH_IDS = 13, 13  # topics have ids in the request from there on
NO_ID = bytes(16)


def topic_id(client: Client, name: str) -> bytes:
    """The id of a topic, which is not made by the question; zeros if there is none."""
    request = MetadataRequest(topics=[MetadataTopic(name=name)], allow_auto_topic_creation=False)
    (found,) = client.call(request, 12).topics
    return found.topic_id


# --- produce --------------------------------------------------------------------------------------------


def one(value: bytes = b"v", key: bytes | None = b"k", **how: Any) -> bytearray:
    """A set of one record."""
    return batch((key, value), **how)


def produce_request(
    client: Client,
    sets: Mapping[tuple[str, int], bytes | bytearray | None],
    version: int = PRODUCE_NEWEST,
    acks: int = -1,
) -> ProduceRequest:
    """Record sets by topic and partition."""
    topics: dict[str, ProduceTopic] = {}
    for (name, index), records in sets.items():
        if name not in topics:
            id_ = topic_id(client, name) if version >= PRODUCE_IDS else NO_ID
            topics[name] = ProduceTopic(name=name, topic_id=id_, partition_data=[])
        topics[name].partition_data.append(ProducePartition(index=index, records=records))
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=list(topics.values()))


def produce(
    client: Client,
    name: str,
    records: bytes | bytearray | None,
    partition: int = 0,
    *,
    version: int = PRODUCE_NEWEST,
    acks: int = -1,
) -> ProducePartitionResponse:
    """The answer for the one partition."""
    response = client.call(produce_request(client, {(name, partition): records}, version, acks), version)
    (answer,) = response.responses[0].partition_responses
    return answer


def fill(client: Client, name: str, sets: Iterable[bytes | bytearray], partition: int = 0) -> None:
    """Produce sets that must be taken, all at once."""
    sent = list(sets)
    for records in sent:
        client.send(produce_request(client, {(name, partition): records}, 9, 1), 9)
    for _ in sent:
        (answer,) = client.receive().responses[0].partition_responses  # type: ignore[attr-defined]
        assert answer.error_code == 0, answer


# --- fetch ----------------------------------------------------------------------------------------------


def fetch_request(
    client: Client,
    offsets: Mapping[tuple[str, int], int | FetchPartition],
    version: int = FETCH_NEWEST,
    **how: Any,
) -> FetchRequest:
    """Where to read by topic and partition; partitions have 1 MB unless they are given whole."""
    topics: dict[str, FetchTopic] = {}
    for (name, index), where in offsets.items():
        if name not in topics:
            id_ = topic_id(client, name) if version >= FETCH_IDS else NO_ID
            topics[name] = FetchTopic(topic=name, topic_id=id_, partitions=[])
        asked = where if isinstance(where, FetchPartition) else place(where)
        topics[name].partitions.append(replaced(asked, partition=index))
    settings = {"max_wait_ms": 0, "min_bytes": 1, **how}
    return FetchRequest(topics=list(topics.values()), **settings)


def place(offset: int, max_bytes: int = 1 << 20, **how: Any) -> FetchPartition:
    """What is asked of one partition."""
    return FetchPartition(fetch_offset=offset, partition_max_bytes=max_bytes, **how)


def answers(response: FetchResponse) -> list[FetchPartitionResponse]:
    """All partitions of all topics."""
    return [partition for topic in response.responses for partition in topic.partitions]


def fetch(
    client: Client,
    name: str,
    where: int | FetchPartition,
    partition: int = 0,
    *,
    version: int = FETCH_NEWEST,
    **how: Any,
) -> FetchPartitionResponse:
    """The answer for the one partition."""
    request = fetch_request(client, {(name, partition): where}, version, **how)
    (answer,) = answers(client.call(request, version))
    return answer


def data_of(answer: FetchPartitionResponse) -> bytes:
    return bytes(answer.records or b"")


def rows(data: bytes, start: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of the whole entries of a record set."""
    return [
        (row.offset, row.message.key, row.message.value)
        for piece in MessageSet(data).decoded(from_offset=start)
        for row in to_messages(piece.batch)
    ]


def read_all(client: Client, name: str, partition: int = 0, start: int = 0) -> list[tuple[int, bytes | None]]:
    """(offset, value) of everything from an offset on, by as many fetches as it takes."""
    found: list[tuple[int, bytes | None]] = []
    offset = start
    while True:
        answer = fetch(client, name, offset, partition, version=12)
        assert answer.error_code == 0, answer
        pieces = list(MessageSet(data_of(answer)).decoded(from_offset=offset)) if answer.records else []
        for piece in pieces:
            found += [(row.offset, row.message.value) for row in to_messages(piece.batch)]
            offset = piece.next_offset
        if not pieces:
            return found


def magics(data: bytes) -> list[int]:
    """The format of each whole entry."""
    found, at = [], 0
    while at + 17 <= len(data):
        found.append(data[at + 16])
        at += int.from_bytes(data[at + 8 : at + 12], "big") + 12
    return found


# --- offsets --------------------------------------------------------------------------------------------


def offset_at(
    client: Client,
    name: str,
    timestamp: int,
    partition: int = 0,
    *,
    version: int = LIST_OFFSETS_NEWEST,
    epoch: int = -1,
    count: int = 100,
) -> ListOffsetsPartitionResponse:
    """ListOffsets of one partition."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    if version == 0:
        asked = replaced(asked, max_num_offsets=count)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[asked])])
    (answer,) = client.call(request, version).topics[0].partitions
    return answer


def numbered(count: int, size: int = 20, first: int = 0) -> Sequence[Row]:
    """Rows with numbered values of a size."""
    return [(b"k%d" % n, (b"v%d-" % n).ljust(size, b".")) for n in range(first, first + count)]

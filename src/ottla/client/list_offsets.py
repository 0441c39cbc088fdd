"""ListOffsets, by version: where logs begin and end, and which offset belongs to a time. Pure.

0   before 0.10.1: a list of offsets, which may be empty; a time means segments, not records
1   one offset, and the timestamp of its record
2   isolation level
4   leader epochs
7   MAX_TIMESTAMP
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.model.cluster_view import NO_EPOCH
from ottla.model.error_codes import Code
from ottla.model.offset_spec import UNKNOWN_OFFSET
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

API = ListOffsetsRequest.API
TIMES_SINCE = 1
ISOLATION_SINCE = 2
MAX_TIMESTAMP_SINCE = 7
CONSUMER = -1
NO_TIMESTAMP = -1


class OffsetQuestion(NamedTuple):
    """`time` is LATEST, EARLIEST, MAX_TIMESTAMP (-3) or milliseconds since 1970."""

    topic_partition: TopicAndPartition
    time: int
    leader_epoch: int = NO_EPOCH


class OffsetAnswer(NamedTuple):
    """`offset` is UNKNOWN_OFFSET if there is an error, or no record of that time or later.

    `offsets` are all that a broker sends; only version 0 sends more than one.
    """

    topic_partition: TopicAndPartition
    error_code: int
    offset: int
    timestamp_ms: int = NO_TIMESTAMP
    leader_epoch: int = NO_EPOCH
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LogEnds:
    """A log's first offset, the offset after its last record, and the first offset of some times.

    In `by_time`, UNKNOWN_OFFSET means that no record is of that time or later, None that the broker cannot
    look up times.
    """

    earliest: int
    latest: int
    by_time: Mapping[int, int | None]


def list_offsets_request(
    questions: Iterable[OffsetQuestion],
    version: int,
    *,
    isolation_level: int = 0,
    offsets_max: int = 1,
    timeout_ms: int | None = None,
) -> ListOffsetsRequest:
    """Return one request with all questions; they must be for different partitions, of one leader.

    `isolation_level` is left out where the version has none. `offsets_max` is for version 0.
    """
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), time, epoch in questions:
        row = ListOffsetsPartition(partition_index=partition, timestamp=time, current_leader_epoch=epoch)
        if version < TIMES_SINCE:
            row.max_num_offsets = offsets_max
        topics.setdefault(topic, ListOffsetsTopic(name=topic, partitions=[])).partitions.append(row)
    request = ListOffsetsRequest(replica_id=CONSUMER, topics=list(topics.values()))
    if version >= ISOLATION_SINCE:
        request.isolation_level = isolation_level
    if timeout_ms is not None:
        request.timeout_ms = timeout_ms
    return request


def offset_answers(response: ListOffsetsResponse, version: int) -> Iterator[OffsetAnswer]:
    """Yield the answer for each partition."""
    for topic in response.topics:
        for row in topic.partitions:
            yield _answer(TopicAndPartition(topic.name, row.partition_index), row, version)


def _answer(
    topic_partition: TopicAndPartition, row: ListOffsetsPartitionResponse, version: int
) -> OffsetAnswer:
    if row.error_code != Code.NONE:
        return OffsetAnswer(topic_partition, row.error_code, UNKNOWN_OFFSET)
    sent = row.old_style_offsets if version < TIMES_SINCE else [row.offset]
    offsets = tuple(offset for offset in sent if offset != UNKNOWN_OFFSET)
    return OffsetAnswer(
        topic_partition,
        Code.NONE,
        offsets[0] if offsets else UNKNOWN_OFFSET,
        row.timestamp,
        row.leader_epoch,
        offsets,
    )

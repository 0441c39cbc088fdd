"""ListOffsets: where logs begin and end, as requests and answers of any version. Pure.

Version 0 (before 0.10.1) answers a list of offsets, which may be empty, and later ones a single offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.fetching.config import OffsetReset
from ottla.fetching.feed import BY_RESET_POLICY, EARLIEST, LATEST
from ottla.fetching.places import UNKNOWN_OFFSET, TopicAndPartition
from ottla.model.cluster_view import NO_EPOCH
from ottla.model.error_codes import Code
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

CONSUMER = -1


class OffsetQuestion(NamedTuple):
    """`time` is LATEST, EARLIEST or milliseconds since 1970."""

    topic_partition: TopicAndPartition
    time: int
    leader_epoch: int = NO_EPOCH


class OffsetAnswer(NamedTuple):
    """`offset` is UNKNOWN_OFFSET where there is an error, or no record of that time or later."""

    topic_partition: TopicAndPartition
    error_code: int
    offset: int


def reset_time(lookup: int, reset: OffsetReset) -> int | None:
    """What to ask for; None if auto.offset.reset leaves it to the user."""
    if lookup != BY_RESET_POLICY:
        return lookup
    return {OffsetReset.SMALLEST: EARLIEST, OffsetReset.LARGEST: LATEST}.get(reset)


def list_offsets_request(questions: Iterable[OffsetQuestion], isolation_level: int = 0) -> ListOffsetsRequest:
    """All questions at once; they must be for partitions of one leader."""
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), time, epoch in questions:
        rows = topics.setdefault(topic, ListOffsetsTopic(name=topic, partitions=[])).partitions
        rows.append(
            ListOffsetsPartition(partition_index=partition, timestamp=time, current_leader_epoch=epoch)
        )
    return ListOffsetsRequest(
        replica_id=CONSUMER, isolation_level=isolation_level, topics=list(topics.values())
    )


def offset_answers(response: ListOffsetsResponse) -> Iterator[OffsetAnswer]:
    """What the broker tells of each partition."""
    for topic in response.topics:
        for row in topic.partitions:
            offset = row.old_style_offsets[0] if row.old_style_offsets else row.offset
            place = TopicAndPartition(topic.name, row.partition_index)
            yield OffsetAnswer(
                place, row.error_code, UNKNOWN_OFFSET if row.error_code != Code.NONE else offset
            )

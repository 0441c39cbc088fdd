"""Requests of version 0 for offsets of a group in one topic."""

from __future__ import annotations

from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchTopic


def commit_request(group: str, topic: str, *partitions: tuple[int, int, str | None]) -> OffsetCommitRequest:
    listed = [
        OffsetCommitPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
        for index, offset, metadata in partitions
    ]
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitTopic(name=topic, partitions=listed)])


def fetch_request(group: str, topic: str, *partitions: int) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchTopic(name=topic, partition_indexes=list(partitions))]
    )

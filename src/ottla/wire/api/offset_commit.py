"""OffsetCommit, key 8: store a group's positions.

Version notes: 0 writes to ZooKeeper and has no group membership; 1 writes to Kafka and has a timestamp
per partition; 2 to 4 have one retention time instead. 6 adds the leader epoch, 7 static members. From 9
on the generation may be a member epoch (KIP-848). 10 names topics by id.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    field,
    int16,
    int32,
    int64,
    request,
    response,
    string,
    struct,
    uuid,
)


@struct
class OffsetCommitPartition:
    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, since=6, default=-1, ignorable=True)
    commit_timestamp: int = field(int64, since=1, until=1, default=-1)
    committed_metadata: str | None = field(string, nullable_since=0)


@struct
class OffsetCommitTopic:
    name: str = field(string, until=9, ignorable=True)
    topic_id: bytes = field(uuid, since=10, ignorable=True)
    partitions: list[OffsetCommitPartition] = field(array(OffsetCommitPartition))


@request(key=8, versions=10, flexible=8)
class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    group_id: str = field(string)
    generation_id_or_member_epoch: int = field(int32, since=1, default=-1, ignorable=True)
    member_id: str = field(string, since=1, ignorable=True)
    group_instance_id: str | None = field(string, since=7, nullable_since=7, default=None)
    retention_time_ms: int = field(int64, since=2, until=4, default=-1, ignorable=True)
    topics: list[OffsetCommitTopic] = field(array(OffsetCommitTopic))


@struct
class OffsetCommitPartitionResponse:
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class OffsetCommitTopicResponse:
    name: str = field(string, until=9, ignorable=True)
    topic_id: bytes = field(uuid, since=10, ignorable=True)
    partitions: list[OffsetCommitPartitionResponse] = field(array(OffsetCommitPartitionResponse))


@response(OffsetCommitRequest)
class OffsetCommitResponse(Response):
    throttle_time_ms: int = field(int32, since=3, ignorable=True)
    topics: list[OffsetCommitTopicResponse] = field(array(OffsetCommitTopicResponse))

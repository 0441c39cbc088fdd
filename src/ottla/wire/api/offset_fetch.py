"""OffsetFetch, key 9: a group's stored positions.

Version notes: 0 reads from ZooKeeper, 1 from Kafka. From 2 on None asks for every partition. 7 can ask
for settled offsets only (error 88 while a transaction is open). 8 asks for several groups at once and
replaces the fields of one group by `groups`. 10 names topics by id.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    boolean,
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
class OffsetFetchTopic:
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


@struct
class OffsetFetchGroupTopic:
    name: str = field(string, until=9, ignorable=True)
    topic_id: bytes = field(uuid, since=10, ignorable=True)
    partition_indexes: list[int] = field(array(int32))


@struct
class OffsetFetchGroup:
    group_id: str = field(string)
    member_id: str | None = field(string, since=9, nullable_since=9, default=None, ignorable=True)
    member_epoch: int = field(int32, since=9, default=-1, ignorable=True)
    topics: list[OffsetFetchGroupTopic] | None = field(array(OffsetFetchGroupTopic), nullable_since=8)


@request(key=9, versions=10, flexible=6)
class OffsetFetchRequest(Request["OffsetFetchResponse"]):
    group_id: str = field(string, until=7)
    topics: list[OffsetFetchTopic] | None = field(array(OffsetFetchTopic), until=7, nullable_since=2)
    groups: list[OffsetFetchGroup] = field(array(OffsetFetchGroup), since=8)
    require_stable: bool = field(boolean, since=7)


@struct
class OffsetFetchPartitionResponse:
    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, since=5, default=-1, ignorable=True)
    metadata: str | None = field(string, nullable_since=0)
    error_code: int = field(int16)


@struct
class OffsetFetchTopicResponse:
    name: str = field(string)
    partitions: list[OffsetFetchPartitionResponse] = field(array(OffsetFetchPartitionResponse))


@struct
class OffsetFetchGroupPartitionResponse:
    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, default=-1, ignorable=True)
    metadata: str | None = field(string, nullable_since=8)
    error_code: int = field(int16)


@struct
class OffsetFetchGroupTopicResponse:
    name: str = field(string, until=9, ignorable=True)
    topic_id: bytes = field(uuid, since=10, ignorable=True)
    partitions: list[OffsetFetchGroupPartitionResponse] = field(array(OffsetFetchGroupPartitionResponse))


@struct
class OffsetFetchGroupResponse:
    group_id: str = field(string)
    topics: list[OffsetFetchGroupTopicResponse] = field(array(OffsetFetchGroupTopicResponse))
    error_code: int = field(int16)


@response(OffsetFetchRequest)
class OffsetFetchResponse(Response):
    throttle_time_ms: int = field(int32, since=3, ignorable=True)
    topics: list[OffsetFetchTopicResponse] = field(array(OffsetFetchTopicResponse), until=7)
    error_code: int = field(int16, since=2, until=7, ignorable=True)
    groups: list[OffsetFetchGroupResponse] = field(array(OffsetFetchGroupResponse), since=8)

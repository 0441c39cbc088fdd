"""DescribeShareGroupOffsets, key 90: where share groups begin in their partitions, and their lag (KIP-932).

Version notes: flexible from the start. 1 has the lag (KIP-1226).
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
class ShareOffsetsWantedTopic:
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class ShareOffsetsWantedGroup:
    group_id: str = field(string)
    topics: list[ShareOffsetsWantedTopic] | None = field(array(ShareOffsetsWantedTopic), nullable_since=0)


@request(key=90, versions=1, flexible=0)
class DescribeShareGroupOffsetsRequest(Request["DescribeShareGroupOffsetsResponse"]):
    groups: list[ShareOffsetsWantedGroup] = field(array(ShareOffsetsWantedGroup))


@struct
class ShareOffsetsPartition:
    partition_index: int = field(int32)
    start_offset: int = field(int64)
    leader_epoch: int = field(int32)
    lag: int = field(int64, since=1, default=-1, ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)


@struct
class ShareOffsetsTopic:
    topic_name: str = field(string)
    topic_id: bytes = field(uuid)
    partitions: list[ShareOffsetsPartition] = field(array(ShareOffsetsPartition))


@struct
class ShareOffsetsGroup:
    group_id: str = field(string)
    topics: list[ShareOffsetsTopic] = field(array(ShareOffsetsTopic))
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)


@response(DescribeShareGroupOffsetsRequest)
class DescribeShareGroupOffsetsResponse(Response):
    throttle_time_ms: int = field(int32)
    groups: list[ShareOffsetsGroup] = field(array(ShareOffsetsGroup))

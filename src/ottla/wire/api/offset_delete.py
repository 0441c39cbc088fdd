"""OffsetDelete, key 47: forget a group's offsets of partitions that it does not consume any more.

Version notes: one version, and the only old API besides SaslHandshake that never became flexible.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, array, field, int16, int32, request, response, string, struct


@struct
class OffsetDeletePartition:
    partition_index: int = field(int32)


@struct
class OffsetDeleteTopic:
    name: str = field(string)
    partitions: list[OffsetDeletePartition] = field(array(OffsetDeletePartition))


@request(key=47, versions=0, flexible=None)
class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    group_id: str = field(string)
    topics: list[OffsetDeleteTopic] = field(array(OffsetDeleteTopic))


@struct
class OffsetDeletePartitionResponse:
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class OffsetDeleteTopicResponse:
    name: str = field(string)
    partitions: list[OffsetDeletePartitionResponse] = field(array(OffsetDeletePartitionResponse))


@response(OffsetDeleteRequest)
class OffsetDeleteResponse(Response):
    error_code: int = field(int16)
    throttle_time_ms: int = field(int32, ignorable=True)
    topics: list[OffsetDeleteTopicResponse] = field(array(OffsetDeleteTopicResponse))

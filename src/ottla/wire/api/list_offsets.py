"""ListOffsets, key 2: the first or last offset of partitions, or the first one from a time on.

Version notes: 0 answers a list of segment base offsets, newest first; from 1 on one offset with its
timestamp. Special times are -1 latest, -2 earliest, -3 largest timestamp (7), -4 earliest local (8), -5
last tiered (9), -6 earliest that is not tiered yet (11). 10 bounds the wait for tiered storage.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    field,
    int8,
    int16,
    int32,
    int64,
    request,
    response,
    string,
    struct,
)


@struct
class ListOffsetsPartition:
    partition_index: int = field(int32)
    current_leader_epoch: int = field(int32, since=4, default=-1, ignorable=True)
    timestamp: int = field(int64)
    max_num_offsets: int = field(int32, until=0, default=1)


@struct
class ListOffsetsTopic:
    name: str = field(string)
    partitions: list[ListOffsetsPartition] = field(array(ListOffsetsPartition))


@request(key=2, versions=11, flexible=6)
class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    replica_id: int = field(int32)
    isolation_level: int = field(int8, since=2)
    topics: list[ListOffsetsTopic] = field(array(ListOffsetsTopic))
    timeout_ms: int = field(int32, since=10, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    old_style_offsets: list[int] = field(array(int64), until=0)
    timestamp: int = field(int64, since=1, default=-1)
    offset: int = field(int64, since=1, default=-1)
    leader_epoch: int = field(int32, since=4, default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = field(string)
    partitions: list[ListOffsetsPartitionResponse] = field(array(ListOffsetsPartitionResponse))


@response(ListOffsetsRequest)
class ListOffsetsResponse(Response):
    throttle_time_ms: int = field(int32, since=2, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(array(ListOffsetsTopicResponse))

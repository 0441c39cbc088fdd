"""OffsetForLeaderEpoch, key 23: where a leader epoch ended, so that a reader sees whether the log was
truncated.

Version notes: 1 returns the epoch found, 2 fences by the current epoch, 3 distinguishes followers and
consumers.
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
)


@struct
class OffsetForLeaderPartition:
    partition: int = field(int32)
    current_leader_epoch: int = field(int32, since=2, default=-1, ignorable=True)
    leader_epoch: int = field(int32)


@struct
class OffsetForLeaderTopic:
    topic: str = field(string)
    partitions: list[OffsetForLeaderPartition] = field(array(OffsetForLeaderPartition))


@request(key=23, versions=4, flexible=4)
class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    replica_id: int = field(int32, since=3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field(array(OffsetForLeaderTopic))


@struct
class EpochEndOffset:
    error_code: int = field(int16)
    partition: int = field(int32)
    leader_epoch: int = field(int32, since=1, default=-1, ignorable=True)
    end_offset: int = field(int64, default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = field(string)
    partitions: list[EpochEndOffset] = field(array(EpochEndOffset))


@response(OffsetForLeaderEpochRequest)
class OffsetForLeaderEpochResponse(Response):
    throttle_time_ms: int = field(int32, since=2, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field(array(OffsetForLeaderTopicResult))

"""AlterReplicaLogDirs, key 34: move replicas to another directory of the broker that has them."""

from __future__ import annotations

from ottla.wire.schema import Request, Response, array, field, int16, int32, request, response, string, struct


@struct
class MovedTopic:
    name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class WantedLogDir:
    path: str = field(string)
    topics: list[MovedTopic] = field(array(MovedTopic))


@request(key=34, versions=2, flexible=2)
class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"]):
    dirs: list[WantedLogDir] = field(array(WantedLogDir))


@struct
class LogDirPartitionResult:
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class LogDirTopicResult:
    topic_name: str = field(string)
    partitions: list[LogDirPartitionResult] = field(array(LogDirPartitionResult))


@response(AlterReplicaLogDirsRequest)
class AlterReplicaLogDirsResponse(Response):
    throttle_time_ms: int = field(int32)
    results: list[LogDirTopicResult] = field(array(LogDirTopicResult))

"""DescribeLogDirs, key 35: where partitions are stored and how large they are.

Version notes: None asks for all topics. 3 adds an error for the whole response, 4 the size of the
volumes, 5 whether a directory is closed for new partitions.
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
)


@struct
class LogDirTopic:
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@request(key=35, versions=5, flexible=2)
class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    topics: list[LogDirTopic] | None = field(array(LogDirTopic), nullable_since=0)


@struct
class DescribedLogDirPartition:
    partition_index: int = field(int32)
    partition_size: int = field(int64)
    offset_lag: int = field(int64)
    is_future_key: bool = field(boolean)


@struct
class DescribedLogDirTopic:
    name: str = field(string)
    partitions: list[DescribedLogDirPartition] = field(array(DescribedLogDirPartition))


@struct
class DescribedLogDir:
    error_code: int = field(int16)
    log_dir: str = field(string)
    topics: list[DescribedLogDirTopic] = field(array(DescribedLogDirTopic))
    total_bytes: int = field(int64, since=4, default=-1, ignorable=True)
    usable_bytes: int = field(int64, since=4, default=-1, ignorable=True)
    is_cordoned: bool = field(boolean, since=5, ignorable=True)


@response(DescribeLogDirsRequest)
class DescribeLogDirsResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, since=3, ignorable=True)
    results: list[DescribedLogDir] = field(array(DescribedLogDir))

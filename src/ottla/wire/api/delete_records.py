"""DeleteRecords, key 21: move the start of partitions forward. Offset -1 means the high watermark."""

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
class DeleteRecordsPartition:
    partition_index: int = field(int32)
    offset: int = field(int64)


@struct
class DeleteRecordsTopic:
    name: str = field(string)
    partitions: list[DeleteRecordsPartition] = field(array(DeleteRecordsPartition))


@request(key=21, versions=2, flexible=2)
class DeleteRecordsRequest(Request["DeleteRecordsResponse"]):
    topics: list[DeleteRecordsTopic] = field(array(DeleteRecordsTopic))
    timeout_ms: int = field(int32)


@struct
class DeleteRecordsPartitionResponse:
    partition_index: int = field(int32)
    low_watermark: int = field(int64)
    error_code: int = field(int16)


@struct
class DeleteRecordsTopicResponse:
    name: str = field(string)
    partitions: list[DeleteRecordsPartitionResponse] = field(array(DeleteRecordsPartitionResponse))


@response(DeleteRecordsRequest)
class DeleteRecordsResponse(Response):
    throttle_time_ms: int = field(int32)
    topics: list[DeleteRecordsTopicResponse] = field(array(DeleteRecordsTopicResponse))

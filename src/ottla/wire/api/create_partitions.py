"""CreatePartitions, key 37: raise the number of partitions of topics.

Version notes: 2 is flexible, 3 may answer that a quota is used up.
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
    request,
    response,
    string,
    struct,
)


@struct
class CreatePartitionsAssignment:
    broker_ids: list[int] = field(array(int32))


@struct
class CreatePartitionsTopic:
    name: str = field(string)
    count: int = field(int32)
    assignments: list[CreatePartitionsAssignment] | None = field(
        array(CreatePartitionsAssignment), nullable_since=0
    )


@request(key=37, versions=3, flexible=2)
class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    topics: list[CreatePartitionsTopic] = field(array(CreatePartitionsTopic))
    timeout_ms: int = field(int32)
    validate_only: bool = field(boolean)


@struct
class CreatePartitionsTopicResponse:
    name: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)


@response(CreatePartitionsRequest)
class CreatePartitionsResponse(Response):
    throttle_time_ms: int = field(int32)
    results: list[CreatePartitionsTopicResponse] = field(array(CreatePartitionsTopicResponse))

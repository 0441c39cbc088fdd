"""ListPartitionReassignments, key 46: which partitions are being moved to other brokers.

Version notes: flexible from the start. None asks for all topics.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    field,
    int16,
    int32,
    request,
    response,
    string,
    struct,
)


@struct
class ListReassignmentsTopic:
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


@request(key=46, versions=0, flexible=0)
class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    timeout_ms: int = field(int32, default=60000)
    topics: list[ListReassignmentsTopic] | None = field(
        array(ListReassignmentsTopic), nullable_since=0, default=None
    )


@struct
class OngoingPartition:
    partition_index: int = field(int32)
    replicas: list[int] = field(array(int32))
    adding_replicas: list[int] = field(array(int32))
    removing_replicas: list[int] = field(array(int32))


@struct
class OngoingTopic:
    name: str = field(string)
    partitions: list[OngoingPartition] = field(array(OngoingPartition))


@response(ListPartitionReassignmentsRequest)
class ListPartitionReassignmentsResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    topics: list[OngoingTopic] = field(array(OngoingTopic))

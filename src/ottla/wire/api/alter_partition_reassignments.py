"""AlterPartitionReassignments, key 45: give partitions to other brokers, or stop that.

Version notes: flexible from the start. Replicas of null cancel a move that is under way. 1 can forbid
that the number of replicas changes.
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
class ReassignablePartition:
    partition_index: int = field(int32)
    replicas: list[int] | None = field(array(int32), nullable_since=0, default=None)


@struct
class ReassignableTopic:
    name: str = field(string)
    partitions: list[ReassignablePartition] = field(array(ReassignablePartition))


@request(key=45, versions=1, flexible=0)
class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"]):
    timeout_ms: int = field(int32, default=60000)
    allow_replication_factor_change: bool = field(boolean, since=1, default=True)
    topics: list[ReassignableTopic] = field(array(ReassignableTopic))


@struct
class ReassignedPartition:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)


@struct
class ReassignedTopic:
    name: str = field(string)
    partitions: list[ReassignedPartition] = field(array(ReassignedPartition))


@response(AlterPartitionReassignmentsRequest)
class AlterPartitionReassignmentsResponse(Response):
    throttle_time_ms: int = field(int32)
    allow_replication_factor_change: bool = field(boolean, since=1, default=True, ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    responses: list[ReassignedTopic] = field(array(ReassignedTopic))

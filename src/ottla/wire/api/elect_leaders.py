"""ElectLeaders, key 43: make the preferred replicas leaders, or any replica that is left.

Version notes: 1 names the kind of election (0 preferred, 1 unclean) and has an error for the whole response.
None asks for all partitions.
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
    request,
    response,
    string,
    struct,
)


@struct
class ElectLeadersTopic:
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@request(key=43, versions=2, flexible=2)
class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    election_type: int = field(int8, since=1)
    topic_partitions: list[ElectLeadersTopic] | None = field(array(ElectLeadersTopic), nullable_since=0)
    timeout_ms: int = field(int32, default=60000)


@struct
class ElectLeadersPartitionResponse:
    partition_id: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)


@struct
class ElectLeadersTopicResponse:
    topic: str = field(string)
    partition_result: list[ElectLeadersPartitionResponse] = field(array(ElectLeadersPartitionResponse))


@response(ElectLeadersRequest)
class ElectLeadersResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, since=1)
    replica_election_results: list[ElectLeadersTopicResponse] = field(array(ElectLeadersTopicResponse))

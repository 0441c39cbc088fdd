"""DescribeCluster, key 60: the cluster's id, controller and brokers.

Version notes: flexible from the start. 1 can ask for controllers (`endpoint_type` 2), 2 for fenced
brokers.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    request,
    response,
    string,
    struct,
)


@request(key=60, versions=2, flexible=0)
class DescribeClusterRequest(Request["DescribeClusterResponse"]):
    include_cluster_authorized_operations: bool = field(boolean)
    endpoint_type: int = field(int8, since=1, default=1)
    include_fenced_brokers: bool = field(boolean, since=2)


@struct
class DescribeClusterBroker:
    broker_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, nullable_since=0, default=None)
    is_fenced: bool = field(boolean, since=2)


@response(DescribeClusterRequest)
class DescribeClusterResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)
    endpoint_type: int = field(int8, since=1, default=1)
    cluster_id: str = field(string)
    controller_id: int = field(int32, default=-1)
    brokers: list[DescribeClusterBroker] = field(array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(int32, default=-0x8000_0000)

"""DescribeGroups, key 15: state, protocol and members of classic groups.

Version notes: 3 can add permissions, 4 static members. From 6 on an unknown group is an error with a
message; before, it is a group in the state "Dead".
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    blob,
    boolean,
    field,
    int16,
    int32,
    request,
    response,
    string,
    struct,
)


@request(key=15, versions=6, flexible=5)
class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    groups: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean, since=3)


@struct
class DescribedGroupMember:
    member_id: str = field(string)
    group_instance_id: str | None = field(string, since=4, nullable_since=4, default=None, ignorable=True)
    client_id: str = field(string)
    client_host: str = field(string)
    member_metadata: bytes = field(blob)
    member_assignment: bytes = field(blob)


@struct
class DescribedGroup:
    error_code: int = field(int16)
    error_message: str | None = field(string, since=6, nullable_since=6, default=None)
    group_id: str = field(string)
    group_state: str = field(string)
    protocol_type: str = field(string)
    protocol_data: str = field(string)
    members: list[DescribedGroupMember] = field(array(DescribedGroupMember))
    authorized_operations: int = field(int32, since=3, default=-0x8000_0000)


@response(DescribeGroupsRequest)
class DescribeGroupsResponse(Response):
    throttle_time_ms: int = field(int32, since=1, ignorable=True)
    groups: list[DescribedGroup] = field(array(DescribedGroup))

"""SyncGroup, key 14: the leader sends the assignment of the group, and every member gets its part.

Version notes: 3 adds static members; 5 lets both sides check the protocol's type and name.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    blob,
    field,
    int16,
    int32,
    request,
    response,
    string,
    struct,
)


@struct
class SyncGroupAssignment:
    member_id: str = field(string)
    assignment: bytes = field(blob)


@request(key=14, versions=5, flexible=4)
class SyncGroupRequest(Request["SyncGroupResponse"]):
    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, since=3, nullable_since=3, default=None)
    protocol_type: str | None = field(string, since=5, nullable_since=5, default=None, ignorable=True)
    protocol_name: str | None = field(string, since=5, nullable_since=5, default=None, ignorable=True)
    assignments: list[SyncGroupAssignment] = field(array(SyncGroupAssignment))


@response(SyncGroupRequest)
class SyncGroupResponse(Response):
    throttle_time_ms: int = field(int32, since=1, ignorable=True)
    error_code: int = field(int16)
    protocol_type: str | None = field(string, since=5, nullable_since=5, default=None, ignorable=True)
    protocol_name: str | None = field(string, since=5, nullable_since=5, default=None, ignorable=True)
    assignment: bytes = field(blob)

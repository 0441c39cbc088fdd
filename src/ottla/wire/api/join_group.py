"""JoinGroup, key 11: enter a consumer group and wait until its generation is complete.

Version notes: before 1 the session timeout bounds the rebalance too. From 4 on a first join is answered
with an error and a member id to come back with. 5 adds static members. 8 adds a reason for the log. 9 can
tell the leader of a static group to keep the assignment.
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


@struct
class JoinGroupProtocol:
    name: str = field(string)
    metadata: bytes = field(blob)


@request(key=11, versions=9, flexible=6)
class JoinGroupRequest(Request["JoinGroupResponse"]):
    group_id: str = field(string)
    session_timeout_ms: int = field(int32)
    rebalance_timeout_ms: int = field(int32, since=1, default=-1, ignorable=True)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, since=5, nullable_since=5, default=None)
    protocol_type: str = field(string)
    protocols: list[JoinGroupProtocol] = field(array(JoinGroupProtocol))
    reason: str | None = field(string, since=8, nullable_since=8, default=None, ignorable=True)


@struct
class JoinGroupMember:
    member_id: str = field(string)
    group_instance_id: str | None = field(string, since=5, nullable_since=5, default=None, ignorable=True)
    metadata: bytes = field(blob)


@response(JoinGroupRequest)
class JoinGroupResponse(Response):
    throttle_time_ms: int = field(int32, since=2, ignorable=True)
    error_code: int = field(int16)
    generation_id: int = field(int32, default=-1)
    protocol_type: str | None = field(string, since=7, nullable_since=7, default=None, ignorable=True)
    protocol_name: str | None = field(string, nullable_since=7)
    leader: str = field(string)
    skip_assignment: bool = field(boolean, since=9)
    member_id: str = field(string)
    members: list[JoinGroupMember] = field(array(JoinGroupMember))

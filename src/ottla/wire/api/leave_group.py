"""LeaveGroup, key 13: members leave, so that the group need not wait for the end of their sessions.

Version notes: 3 lets several members leave and replaces `member_id` by `members`; 5 adds a reason for the
log.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, array, field, int16, int32, request, response, string, struct


@struct
class LeavingMember:
    member_id: str = field(string)
    group_instance_id: str | None = field(string, nullable_since=3, default=None)
    reason: str | None = field(string, since=5, nullable_since=5, default=None, ignorable=True)


@request(key=13, versions=5, flexible=4)
class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    group_id: str = field(string)
    member_id: str = field(string, until=2)
    members: list[LeavingMember] = field(array(LeavingMember), since=3)


@struct
class LeavingMemberResponse:
    member_id: str = field(string)
    group_instance_id: str | None = field(string, nullable_since=3)
    error_code: int = field(int16)


@response(LeaveGroupRequest)
class LeaveGroupResponse(Response):
    throttle_time_ms: int = field(int32, since=1, ignorable=True)
    error_code: int = field(int16)
    members: list[LeavingMemberResponse] = field(array(LeavingMemberResponse), since=3)

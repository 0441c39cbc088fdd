"""Heartbeat, key 12: a member reports that it is alive, and learns whether the group rebalances.

Version notes: 3 adds static members.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, field, int16, int32, request, response, string


@request(key=12, versions=4, flexible=4)
class HeartbeatRequest(Request["HeartbeatResponse"]):
    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, since=3, nullable_since=3, default=None)


@response(HeartbeatRequest)
class HeartbeatResponse(Response):
    throttle_time_ms: int = field(int32, since=1, ignorable=True)
    error_code: int = field(int16)

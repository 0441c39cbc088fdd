"""DeleteGroups, key 42: remove empty groups with their offsets.

Version notes: 3 adds a text to each error.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, array, field, int16, int32, request, response, string, struct


@request(key=42, versions=3, flexible=2)
class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    groups_names: list[str] = field(array(string))


@struct
class DeletedGroup:
    group_id: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, since=3, nullable_since=3, default=None, ignorable=True)


@response(DeleteGroupsRequest)
class DeleteGroupsResponse(Response):
    throttle_time_ms: int = field(int32)
    results: list[DeletedGroup] = field(array(DeletedGroup))

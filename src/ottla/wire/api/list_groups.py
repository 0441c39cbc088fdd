"""ListGroups, key 16: the groups that one broker coordinates.

Version notes: 4 filters by and returns the state, 5 the group's type.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, array, field, int16, int32, request, response, string, struct


@request(key=16, versions=5, flexible=3)
class ListGroupsRequest(Request["ListGroupsResponse"]):
    states_filter: list[str] = field(array(string), since=4)
    types_filter: list[str] = field(array(string), since=5)


@struct
class ListedGroup:
    group_id: str = field(string)
    protocol_type: str = field(string)
    group_state: str = field(string, since=4, ignorable=True)
    group_type: str = field(string, since=5, ignorable=True)


@response(ListGroupsRequest)
class ListGroupsResponse(Response):
    throttle_time_ms: int = field(int32, since=1, ignorable=True)
    error_code: int = field(int16)
    groups: list[ListedGroup] = field(array(ListedGroup))

"""JoinGroup, key 11: enter a group, or a new generation of it.

Versions: 0 to 9. From 4 on a new member gets its id first and joins with it; from 5 on it may be static.
Behaviour: decided by the group coordinator, see `ottla.broker.groups.coordinator`.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse


def handle(inquiry: Inquiry, request: JoinGroupRequest) -> JoinGroupResponse | None:
    """Have the coordinator decide, unless the name belongs to a share group."""
    if request.group_id in inquiry.broker.shares.groups:
        return refuse(request, Code.INCONSISTENT_GROUP_PROTOCOL, inquiry.version)
    inquiry.ask_groups(request)
    return None


def refuse(request: JoinGroupRequest, error: Code, _version: int) -> JoinGroupResponse:
    """One error for the whole request."""
    return JoinGroupResponse(error_code=error, member_id=request.member_id)


HANDLER = Handler(handle, refuse)

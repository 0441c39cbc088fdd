"""LeaveGroup, key 13: go, or send members away.

Versions: 0 to 5. From 3 on several members, also static ones by their instance id.
Behaviour: decided by the group coordinator, see `ottla.broker.groups.coordinator`.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, ask_coordinator
from ottla.model.error_codes import Code
from ottla.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse


def refuse(_request: LeaveGroupRequest, error: Code, _version: int) -> LeaveGroupResponse:
    """One error for the whole request."""
    return LeaveGroupResponse(error_code=error)


HANDLER = Handler(ask_coordinator, refuse)

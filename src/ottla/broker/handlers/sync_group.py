"""SyncGroup, key 14: get the assignment that the leader made.

Versions: 0 to 5.
Behaviour: decided by the group coordinator, see `ottla.broker.groups.coordinator`.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, ask_coordinator
from ottla.model.error_codes import Code
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse


def refuse(_request: SyncGroupRequest, error: Code, _version: int) -> SyncGroupResponse:
    """One error for the whole request."""
    return SyncGroupResponse(error_code=error)


HANDLER = Handler(ask_coordinator, refuse)

"""Heartbeat, key 12: stay in a group.

Versions: 0 to 4.
Behaviour: decided by the group coordinator, see `ottla.broker.groups.coordinator`.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, ask_coordinator
from ottla.model.error_codes import Code
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse


def refuse(_request: HeartbeatRequest, error: Code, _version: int) -> HeartbeatResponse:
    """One error for the whole request."""
    return HeartbeatResponse(error_code=error)


HANDLER = Handler(ask_coordinator, refuse)

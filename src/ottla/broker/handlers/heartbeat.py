"""Heartbeat, key 12: stay in a group.

Versions: 0 to 4.
Behaviour: decided by the group coordinator, see `ottla.broker.groups`.
"""

from __future__ import annotations

from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.versions import VersionRange


def handle(inquiry: Inquiry, request: HeartbeatRequest) -> None:
    """Ask the coordinator."""
    inquiry.node.groups.ask(inquiry, request)


def refuse(_request: HeartbeatRequest, error: Code, _version: int) -> HeartbeatResponse:
    """One error for the whole request."""
    return HeartbeatResponse(error_code=error)


HANDLER = Handler(HeartbeatRequest, VersionRange(0, 4), handle, refuse)

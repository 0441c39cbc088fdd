"""ConsumerGroupHeartbeat, key 68: join a consumer group, stay in it, leave it.

Versions: 0 to 1. 1 adds regular expressions; from then on the member chooses its own id.
Behaviour: decided by the group coordinator, see `ottla.broker.groups.coordinator.consumer_groups`.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, ask_coordinator
from ottla.model.error_codes import Code
from ottla.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def refuse(
    _request: ConsumerGroupHeartbeatRequest, error: Code, _version: int
) -> ConsumerGroupHeartbeatResponse:
    """One error for the whole request."""
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=error.text)


HANDLER = Handler(ask_coordinator, refuse)

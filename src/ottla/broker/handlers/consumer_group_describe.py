"""ConsumerGroupDescribe, key 69: state, epochs and members of consumer groups.

Versions: 0 to 1. 1 tells which protocol a member speaks.
Behaviour: decided by the group coordinator, see `ottla.broker.groups.coordinator.consumer_groups`.
"""

from __future__ import annotations

from ottla.broker.serving.division import Division
from ottla.broker.serving.handler import Handler, ask_coordinator
from ottla.model.error_codes import Code
from ottla.wire.api.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)


def refuse(
    request: ConsumerGroupDescribeRequest, error: Code, _version: int
) -> ConsumerGroupDescribeResponse:
    """One error for every group."""
    return ConsumerGroupDescribeResponse(
        groups=[
            DescribedConsumerGroup(group_id=group_id, error_code=error, error_message=error.text)
            for group_id in request.group_ids
        ]
    )


HANDLER = Handler(
    ask_coordinator,
    refuse,
    divisions=(Division(("group_ids",), ("groups",)),),
)

"""DescribeGroups, key 15: state, members and assignments of groups.

Versions: 0 to 6.
Behaviour: decided by the group coordinator, see `ottla.broker.groups.coordinator`.
"""

from __future__ import annotations

from ottla.broker.serving.division import Division
from ottla.broker.serving.handler import Handler, ask_coordinator
from ottla.model.error_codes import Code
from ottla.wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse


def refuse(request: DescribeGroupsRequest, error: Code, _version: int) -> DescribeGroupsResponse:
    """One error for every group."""
    groups = [DescribedGroup(error_code=error, group_id=group_id) for group_id in request.groups]
    return DescribeGroupsResponse(groups=groups)


HANDLER = Handler(
    ask_coordinator,
    refuse,
    divisions=(Division(("groups",), ("groups",)),),
)

"""DeleteGroups, key 42: forget groups that are empty.

Versions: 0 to 2.
Behaviour: decided by the group coordinator, see `ottla.broker.groups.coordinator`.
"""

from __future__ import annotations

from ottla.broker.serving.division import Division
from ottla.broker.serving.handler import Handler, ask_coordinator
from ottla.model.error_codes import Code
from ottla.wire.api.delete_groups import DeletedGroup, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.versions import VersionRange


def refuse(request: DeleteGroupsRequest, error: Code, _version: int) -> DeleteGroupsResponse:
    """One error for every group."""
    results = [
        DeletedGroup(group_id=group_id, error_code=error, error_message=error.text)
        for group_id in request.groups_names
    ]
    return DeleteGroupsResponse(results=results)


HANDLER = Handler(
    DeleteGroupsRequest,
    VersionRange(0, 3),
    ask_coordinator,
    refuse,
    divisions=(Division(("groups_names",), ("results",)),),
)

"""DeleteGroups, key 42: forget groups that are empty.

Versions: 0 to 2.
Behaviour: decided by the group coordinator, see `ottla.broker.groups`.
"""

from __future__ import annotations

from ottla.broker.group_service import ask_coordinator
from ottla.broker.serving import Handler
from ottla.model.error_codes import Code
from ottla.wire.api.delete_groups import DeletedGroup, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.versions import VersionRange


def refuse(request: DeleteGroupsRequest, error: Code, _version: int) -> DeleteGroupsResponse:
    """One error for every group."""
    results = [DeletedGroup(group_id=group_id, error_code=error) for group_id in request.groups_names]
    return DeleteGroupsResponse(results=results)


HANDLER = Handler(DeleteGroupsRequest, VersionRange(0, 2), ask_coordinator, refuse)

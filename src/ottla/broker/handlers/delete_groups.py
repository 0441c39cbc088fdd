"""DeleteGroups, key 42: forget groups that are empty.

Versions: 0 to 2.
Behaviour: decided by the group coordinator, see `ottla.broker.groups.coordinator`, and for share groups by
`ottla.broker.share_groups`.
"""

from __future__ import annotations

from ottla.broker.serving.division import Division
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.share_coordination import coordinator_error
from ottla.model.error_codes import Code
from ottla.wire.api.delete_groups import DeletedGroup, DeleteGroupsRequest, DeleteGroupsResponse


def handle(inquiry: Inquiry, request: DeleteGroupsRequest) -> None:
    """Delete groups of all kinds."""
    shares = inquiry.broker.shares
    shared = [name for name in dict.fromkeys(request.groups_names) if name in shares.groups]
    results = {name: coordinator_error(inquiry, name) or shares.delete_group(name) for name in shared}

    def deleted(response: DeleteGroupsResponse) -> None:
        response.results += [_deleted(name, error) for name, error in results.items()]
        inquiry.reply(response)

    others = [name for name in request.groups_names if name not in results]
    inquiry.ask_groups(DeleteGroupsRequest(groups_names=others), deleted)


def _deleted(group_id: str, error: Code) -> DeletedGroup:
    return DeletedGroup(group_id=group_id, error_code=error, error_message=error.text if error else None)


def refuse(request: DeleteGroupsRequest, error: Code, _version: int) -> DeleteGroupsResponse:
    """One error for every group."""
    results = [
        DeletedGroup(group_id=group_id, error_code=error, error_message=error.text)
        for group_id in request.groups_names
    ]
    return DeleteGroupsResponse(results=results)


HANDLER = Handler(
    handle,
    refuse,
    divisions=(Division(("groups_names",), ("results",)),),
)

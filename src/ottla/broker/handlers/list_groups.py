"""ListGroups, key 16: the groups that this broker coordinates.

Versions: 0 to 5.
Behaviour: decided by the group coordinator, see `ottla.broker.groups.coordinator`; share groups are added.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.share_coordination import listed_groups
from ottla.model.error_codes import Code
from ottla.wire.api.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(inquiry: Inquiry, request: ListGroupsRequest) -> None:
    """List groups of all kinds."""

    def listed(response: ListGroupsResponse) -> None:
        response.groups += listed_groups(inquiry, request)
        inquiry.reply(response)

    inquiry.ask_groups(request, listed)


def refuse(_request: ListGroupsRequest, error: Code, _version: int) -> ListGroupsResponse:
    """One error for the whole request."""
    return ListGroupsResponse(error_code=error)


HANDLER = Handler(handle, refuse)

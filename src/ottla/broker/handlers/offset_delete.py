"""OffsetDelete, key 47: forget committed offsets of topics that a group does not read.

Versions: 0.
Behaviour: decided by the group coordinator, see `ottla.broker.groups`.
"""

from __future__ import annotations

from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.versions import VersionRange


def handle(inquiry: Inquiry, request: OffsetDeleteRequest) -> None:
    """Ask the coordinator."""
    inquiry.node.groups.ask(inquiry, request)


def refuse(_request: OffsetDeleteRequest, error: Code, _version: int) -> OffsetDeleteResponse:
    """One error for the whole request."""
    return OffsetDeleteResponse(error_code=error)


HANDLER = Handler(OffsetDeleteRequest, VersionRange(0, 0), handle, refuse)

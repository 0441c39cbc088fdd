"""ListPartitionReassignments, key 46: which partitions are being moved to other brokers.

Versions: 0.
Behaviour: none ever is, as nothing is copied here. Kafka's tools ask for it before they do other things.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    _inquiry: Inquiry, _request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer that there are none."""
    return ListPartitionReassignmentsResponse(error_message=None)


def refuse(
    _request: ListPartitionReassignmentsRequest, error: Code, _version: int
) -> ListPartitionReassignmentsResponse:
    """One error for the whole request."""
    return ListPartitionReassignmentsResponse(error_code=error, error_message=error.text)


HANDLER = Handler(handle, refuse)

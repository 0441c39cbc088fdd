"""DescribeCluster, key 60: the cluster's id, controller and brokers.

Versions: 0 to 2. From 1 on a client may ask for controllers: they are no servers of their own here, so that
is refused as by any Kafka broker. From 2 on it may ask for brokers that are fenced off: there are none.
Behaviour: every broker can do the controller's work; the answer names the first, since clients want one. If
the client asks, the answer says which operations it may do.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.permissions import CLUSTER_OPERATIONS, permitted
from ottla.wire.api.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def handle(inquiry: Inquiry, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the brokers that are up."""
    if request.endpoint_type != BROKERS:
        is_known = request.endpoint_type == CONTROLLERS
        error = Code.MISMATCHED_ENDPOINT_TYPE if is_known else Code.UNSUPPORTED_ENDPOINT_TYPE
        return refuse(request, error, inquiry.version)
    leaders = inquiry.broker.leaders
    return DescribeClusterResponse(
        cluster_id=inquiry.broker.store.cluster_id,
        controller_id=leaders.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=broker_id, host=host, port=port, rack=leaders.rack_of(broker_id))
            for broker_id, (host, port) in leaders.at(inquiry.link.listener).items()
        ],
        cluster_authorized_operations=permitted(
            CLUSTER_OPERATIONS, is_asked=request.include_cluster_authorized_operations
        ),
    )


def refuse(_request: DescribeClusterRequest, error: Code, _version: int) -> DescribeClusterResponse:
    """One error for the whole request."""
    return DescribeClusterResponse(error_code=error, error_message=error.text)


HANDLER = Handler(handle, refuse)

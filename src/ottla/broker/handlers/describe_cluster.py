"""DescribeCluster, key 60: the cluster's id, controller and brokers.

Versions: 0 to 2. From 1 on a client may ask for controllers: they are no servers of their own here, so that
is refused as by any Kafka broker. From 2 on it may ask for brokers that are fenced off: there are none.
Behaviour: every broker can do the controller's work; one is named, since clients want one.
"""

from __future__ import annotations

from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.wire.versions import VersionRange

BROKERS = 1
CONTROLLERS = 2


def handle(inquiry: Inquiry, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the brokers that are up."""
    if request.endpoint_type != BROKERS:
        is_known = request.endpoint_type == CONTROLLERS
        error = Code.MISMATCHED_ENDPOINT_TYPE if is_known else Code.UNSUPPORTED_ENDPOINT_TYPE
        return refuse(request, error, inquiry.version)
    cluster = inquiry.cluster
    return DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node.broker_id, host=node.host, port=node.advertised_port)
            for node in cluster.nodes.values()
        ],
    )


def refuse(_request: DescribeClusterRequest, error: Code, _version: int) -> DescribeClusterResponse:
    """One error for the whole request."""
    return DescribeClusterResponse(error_code=error, error_message=error.text)


HANDLER = Handler(DescribeClusterRequest, VersionRange(0, 2), handle, refuse)

"""ApiVersions, key 18: what this broker serves.

Versions: 0 to 5. One that is not served is answered by the connection itself, in format 0 with error 35.
Behaviour: lists the handlers that exist, and from 3 on the features, such as transaction.version 2, by
which clients know that Produce adds partitions to transactions and that every transaction has its epoch
(KIP-890), and group.version 1, by which they know that brokers assign partitions (KIP-848). From 5 on a
client may name the cluster and the broker that it means (both or none). If that is not this broker, error
129 sends it back to its bootstrap servers: the address may have got another broker since the client learned
it.
"""

from __future__ import annotations

import re

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.served_broker import ServedBroker
from ottla.model.error_codes import Code
from ottla.wire.api.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeature,
    SupportedFeature,
)

NO_NODE = -1
FEATURES = {"group.version": 1, "share.version": 2, "transaction.version": 2}
"""The features of the cluster, and the level that each has."""
UNLISTED = frozenset({71, 72})
"""Telemetry of clients.

Like a Kafka without a metrics plugin, the broker answers these APIs but does not list them.
"""
ZERO_LEVELS_SINCE = 4
"""The first version that may list a feature whose lowest level is 0: older clients fail on it."""
# KIP-511: how a client may call itself; versions without names send an empty one.
_SOFTWARE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)?")


def handle(inquiry: Inquiry, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """The table of served versions."""
    names = (request.client_software_name, request.client_software_version)
    if inquiry.version >= 3 and not all(name and _SOFTWARE.fullmatch(name) for name in names):
        return ApiVersionsResponse(error_code=Code.INVALID_REQUEST)
    error = _misrouted(inquiry.broker, request)
    if error:
        return ApiVersionsResponse(error_code=error)
    rows = [
        ApiVersion(api_key=key, min_version=served.oldest, max_version=served.newest)
        for key, served in inquiry.broker.served.ranges.items()
        if key not in UNLISTED
    ]
    return ApiVersionsResponse(
        api_keys=rows,
        supported_features=[
            SupportedFeature(name=name, min_version=0, max_version=level)
            for name, level in FEATURES.items()
            if inquiry.version >= ZERO_LEVELS_SINCE
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeature(name=name, max_version_level=level, min_version_level=level)
            for name, level in FEATURES.items()
        ],
    )


def _misrouted(broker: ServedBroker, request: ApiVersionsRequest) -> Code:
    """Return the error for a client that means another broker. Before version 5 requests name no broker."""
    if (request.cluster_id is None) != (request.node_id == NO_NODE):
        return Code.INVALID_REQUEST
    named = (request.cluster_id, request.node_id)
    if named in ((None, NO_NODE), (broker.store.cluster_id, broker.broker_id)):
        return Code.NONE
    return Code.REBOOTSTRAP_REQUIRED


def refuse(_request: ApiVersionsRequest, error: Code, _version: int) -> ApiVersionsResponse:
    """One error for the whole request."""
    return ApiVersionsResponse(error_code=error)


HANDLER = Handler(handle, refuse)

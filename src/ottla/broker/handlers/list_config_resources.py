"""ListConfigResources, key 74: the names of what has settings.

Versions: 0 to 1. 0 lists client metrics only.
Behaviour: topics and brokers are listed whether or not they have settings of their own, groups and client
metrics only if they have some.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.settings.config_view import ConfigResourceType
from ottla.model.error_codes import Code
from ottla.wire.api.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListedConfigResource,
)

TYPES_SINCE = 1


def handle(inquiry: Inquiry, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """List the resources of each type that the request names; without any, of all."""
    if inquiry.version < TYPES_SINCE:
        wanted: Iterable[int] = [ConfigResourceType.CLIENT_METRICS]
    else:
        wanted = dict.fromkeys(request.resource_types) or list(ConfigResourceType)
    listed = []
    for kind in wanted:
        if kind not in list(ConfigResourceType):
            return refuse(request, Code.UNSUPPORTED_VERSION, inquiry.version)
        names = _names(inquiry, ConfigResourceType(kind))
        listed += [ListedConfigResource(resource_name=name, resource_type=kind) for name in names]
    return ListConfigResourcesResponse(config_resources=listed)


def _names(inquiry: Inquiry, kind: ConfigResourceType) -> Iterable[str]:
    if kind is ConfigResourceType.TOPIC:
        return inquiry.broker.store.partitions
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        return map(str, inquiry.broker.leaders.brokers)
    return inquiry.broker.store.catalog.entities.get(kind.name, ())


def refuse(_request: ListConfigResourcesRequest, error: Code, _version: int) -> ListConfigResourcesResponse:
    """One error for the whole request."""
    return ListConfigResourcesResponse(error_code=error)


HANDLER = Handler(handle, refuse)

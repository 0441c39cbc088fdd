"""ListConfigResources, key 74: the names of resources that have settings.

Version notes: flexible from the start. 0 lists client metrics only; from 1 on a request names the types of
resources, and none means all.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    field,
    int8,
    int16,
    int32,
    request,
    response,
    string,
    struct,
)


@request(key=74, versions=1, flexible=0)
class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"]):
    resource_types: list[int] = field(array(int8), since=1)


@struct
class ListedConfigResource:
    resource_name: str = field(string)
    resource_type: int = field(int8, since=1, default=16, ignorable=True)


@response(ListConfigResourcesRequest)
class ListConfigResourcesResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    config_resources: list[ListedConfigResource] = field(array(ListedConfigResource))

"""CreateAcls, key 30: rules that allow or deny.

Version notes: 1 has pattern types (prefixes).
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


@struct
class AclCreation:
    resource_type: int = field(int8)
    resource_name: str = field(string)
    resource_pattern_type: int = field(int8, since=1, default=3)
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


@request(key=30, versions=3, flexible=2)
class CreateAclsRequest(Request["CreateAclsResponse"]):
    creations: list[AclCreation] = field(array(AclCreation))


@struct
class AclCreationResult:
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)


@response(CreateAclsRequest)
class CreateAclsResponse(Response):
    throttle_time_ms: int = field(int32)
    results: list[AclCreationResult] = field(array(AclCreationResult))

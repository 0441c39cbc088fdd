"""DescribeAcls, key 29: the rules that match a filter.

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


@request(key=29, versions=3, flexible=2)
class DescribeAclsRequest(Request["DescribeAclsResponse"]):
    resource_type_filter: int = field(int8)
    resource_name_filter: str | None = field(string, nullable_since=0)
    pattern_type_filter: int = field(int8, since=1, default=3)
    principal_filter: str | None = field(string, nullable_since=0)
    host_filter: str | None = field(string, nullable_since=0)
    operation: int = field(int8)
    permission_type: int = field(int8)


@struct
class AclDescription:
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


@struct
class DescribeAclsResource:
    resource_type: int = field(int8)
    resource_name: str = field(string)
    pattern_type: int = field(int8, since=1, default=3)
    acls: list[AclDescription] = field(array(AclDescription))


@response(DescribeAclsRequest)
class DescribeAclsResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    resources: list[DescribeAclsResource] = field(array(DescribeAclsResource))

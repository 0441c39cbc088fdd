"""DeleteAcls, key 31: delete the rules that match filters.

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
class DeleteAclsFilter:
    resource_type_filter: int = field(int8)
    resource_name_filter: str | None = field(string, nullable_since=0)
    pattern_type_filter: int = field(int8, since=1, default=3)
    principal_filter: str | None = field(string, nullable_since=0)
    host_filter: str | None = field(string, nullable_since=0)
    operation: int = field(int8)
    permission_type: int = field(int8)


@request(key=31, versions=3, flexible=2)
class DeleteAclsRequest(Request["DeleteAclsResponse"]):
    filters: list[DeleteAclsFilter] = field(array(DeleteAclsFilter))


@struct
class DeleteAclsMatchingAcl:
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    resource_type: int = field(int8)
    resource_name: str = field(string)
    pattern_type: int = field(int8, since=1, default=3)
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


@struct
class DeleteAclsFilterResult:
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    matching_acls: list[DeleteAclsMatchingAcl] = field(array(DeleteAclsMatchingAcl))


@response(DeleteAclsRequest)
class DeleteAclsResponse(Response):
    throttle_time_ms: int = field(int32)
    filter_results: list[DeleteAclsFilterResult] = field(array(DeleteAclsFilterResult))

"""DescribeAcls, key 29: the rules that match a filter.

Versions: 1 to 3. Without an authorizer the answer is SECURITY_DISABLED.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.acls import AclFilter
from ottla.model.error_codes import Code
from ottla.wire.api.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(inquiry: Inquiry, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return the rules, by resource."""
    authorizer = inquiry.broker.authorizer
    if authorizer is None:
        return refuse(request, Code.SECURITY_DISABLED, inquiry.version)
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in authorizer.matching(wanted):
        resource = resources.setdefault(
            (acl.resource_type, acl.name, acl.pattern),
            DescribeAclsResource(
                resource_type=acl.resource_type, resource_name=acl.name, pattern_type=acl.pattern, acls=[]
            ),
        )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))


def refuse(_request: DescribeAclsRequest, error: Code, _version: int) -> DescribeAclsResponse:
    """One error for the whole request."""
    text = "No Authorizer is configured on the broker" if error is Code.SECURITY_DISABLED else error.text
    return DescribeAclsResponse(error_code=error, error_message=text)


HANDLER = Handler(handle, refuse)

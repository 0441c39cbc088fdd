"""DeleteAcls, key 31: delete the rules that match filters.

Versions: 1 to 3. Behaviour: the answer has the rules that were deleted, by filter; one may be in several.
Without an authorizer the answer is SECURITY_DISABLED.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.acls import Acl, AclFilter
from ottla.model.error_codes import Code
from ottla.wire.api.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(inquiry: Inquiry, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Find the rules of every filter, then delete all of them."""
    authorizer = inquiry.broker.authorizer
    if authorizer is None:
        return refuse(request, Code.SECURITY_DISABLED, inquiry.version)
    matching = [authorizer.matching(_filter(wanted)) for wanted in request.filters]
    authorizer.delete({acl for acls in matching for acl in acls})
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_message=None, matching_acls=[_deleted(acl) for acl in acls])
            for acls in matching
        ]
    )


def _filter(wanted: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )


def _deleted(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def refuse(request: DeleteAclsRequest, error: Code, _version: int) -> DeleteAclsResponse:
    """One error for every filter."""
    text = "No Authorizer is configured." if error is Code.SECURITY_DISABLED else error.text
    results = [DeleteAclsFilterResult(error_code=error, error_message=text) for _ in request.filters]
    return DeleteAclsResponse(filter_results=results)


HANDLER = Handler(handle, refuse)

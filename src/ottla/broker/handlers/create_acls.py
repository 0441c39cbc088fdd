"""CreateAcls, key 30: rules that allow or deny.

Versions: 1 to 3. Behaviour: each rule is stored or refused by itself. Without an authorizer the answer is
SECURITY_DISABLED.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.acls import Acl, refusal
from ottla.model.error_codes import Code
from ottla.wire.api.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(inquiry: Inquiry, request: CreateAclsRequest) -> CreateAclsResponse:
    """Store the rules that are sound."""
    authorizer = inquiry.broker.authorizer
    if authorizer is None:
        return refuse(request, Code.SECURITY_DISABLED, inquiry.version)
    acls = [_acl(creation) for creation in request.creations]
    reasons = [refusal(acl) for acl in acls]
    authorizer.create(acl for acl, reason in zip(acls, reasons, strict=True) if not reason)
    return CreateAclsResponse(
        results=[
            AclCreationResult(
                error_code=Code.INVALID_REQUEST if reason else Code.NONE, error_message=reason or None
            )
            for reason in reasons
        ]
    )


def _acl(creation: AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def refuse(request: CreateAclsRequest, error: Code, _version: int) -> CreateAclsResponse:
    """One error for every rule."""
    text = "No Authorizer is configured." if error is Code.SECURITY_DISABLED else error.text
    results = [AclCreationResult(error_code=error, error_message=text) for _ in request.creations]
    return CreateAclsResponse(results=results)


HANDLER = Handler(handle, refuse)

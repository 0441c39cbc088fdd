"""ApiVersions, key 18: what this broker serves.

Versions: 0 to 4. One that is not served is answered by the connection itself, in format 0 with error 35.
Behaviour: lists the handlers that exist, and no features: none is offered whose absence a client would miss.
"""

from __future__ import annotations

import re

from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.versions import VersionRange

# KIP-511: what a client may call itself; the empty name is that of versions that cannot tell.
_SOFTWARE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)?")


def handle(inquiry: Inquiry, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """The table of served versions."""
    names = (request.client_software_name, request.client_software_version)
    if inquiry.version >= 3 and not all(name and _SOFTWARE.fullmatch(name) for name in names):
        return ApiVersionsResponse(error_code=Code.INVALID_REQUEST)
    rows = [
        ApiVersion(api_key=key, min_version=served.oldest, max_version=served.newest)
        for key, served in inquiry.node.served.ranges.items()
    ]
    return ApiVersionsResponse(api_keys=rows)


def refuse(_request: ApiVersionsRequest, error: Code, _version: int) -> ApiVersionsResponse:
    """One error for the whole request."""
    return ApiVersionsResponse(error_code=error)


HANDLER = Handler(ApiVersionsRequest, VersionRange(0, 4), handle, refuse)

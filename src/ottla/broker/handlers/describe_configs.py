"""DescribeConfigs, key 32: settings of topics and brokers.

Versions: 0 to 4. 0 only says whether a value is the default; 1 says where it comes from, 3 what it is for.
Behaviour: see `ottla.broker.described_configs`. A broker tells of itself, or (without a name) of what was set
for all. Loggers, client metrics and groups have no settings here and are refused by name.
"""

from __future__ import annotations

from ottla.broker import live_settings
from ottla.broker.described_configs import describe
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse, DescribedResource
from ottla.wire.versions import VersionRange

SOURCES_SINCE = 1


def handle(inquiry: Inquiry, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe each of the resources."""
    response = describe(request, live_settings.view(inquiry.cluster, inquiry.node.broker_id))
    if inquiry.version >= SOURCES_SINCE:
        for config in (config for result in response.results for config in result.configs):
            config.is_default = False  # the source says it
    return response


def refuse(request: DescribeConfigsRequest, error: Code, _version: int) -> DescribeConfigsResponse:
    """One error for every resource."""
    return DescribeConfigsResponse(
        results=[
            DescribedResource(
                error_code=error,
                error_message=error.text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


HANDLER = Handler(DescribeConfigsRequest, VersionRange(0, 4), handle, refuse)

"""DescribeConfigs, key 32: settings of topics and brokers.

Versions: 0 to 4. 0 only says whether a value is the default; 1 says where it comes from, 3 what it is for.
Behaviour: see `settings.described_configs`. A broker describes itself or, for an empty name, the cluster-wide
defaults. Groups, client metrics and loggers are described too.
"""

from __future__ import annotations

from collections.abc import Generator

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.settings.described_configs import described_resources
from ottla.broker.storage.topic_store import exhausted
from ottla.model.error_codes import Code
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse, DescribedResource

SOURCES_SINCE = 1
AT_ONCE = 10
"""Resources that are described at once: some milliseconds."""


def handle(inquiry: Inquiry, request: DescribeConfigsRequest) -> DescribeConfigsResponse | None:
    """Describe each of the resources. Many take many slices."""
    work = _described(inquiry, request)
    if len(request.resources) <= AT_ONCE:
        return exhausted(work)
    inquiry.reply_in_slices(work)
    return None


def _described(
    inquiry: Inquiry, request: DescribeConfigsRequest
) -> Generator[None, None, DescribeConfigsResponse]:
    results = []
    for result in described_resources(request, inquiry.broker.settings.view(inquiry.broker.broker_id)):
        if inquiry.version >= SOURCES_SINCE:
            for config in result.configs:
                config.is_default = False  # the source says it
        results.append(result)
        if len(results) % AT_ONCE == 0:
            yield
    return DescribeConfigsResponse(results=results)


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


HANDLER = Handler(handle, refuse)

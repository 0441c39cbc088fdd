"""IncrementalAlterConfigs, key 44: change single settings of topics and brokers.

Versions: 0 to 1.
Behaviour: see `settings.config_changes`. A change takes effect at once and survives a restart.
Either all changes of a resource are made or none. Topic settings can be changed at any broker.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.settings.config_changes import (
    ConfigChangeOutcome,
    incremental_outcomes,
    incremental_response,
)
from ottla.model.error_codes import Code
from ottla.wire.api.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(inquiry: Inquiry, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Decide, then do."""
    outcomes = incremental_outcomes(request, inquiry.broker.settings.view(inquiry.broker.broker_id))
    return incremental_response(inquiry.broker.settings.carry_out(outcomes))


def refuse(
    request: IncrementalAlterConfigsRequest, error: Code, _version: int
) -> IncrementalAlterConfigsResponse:
    """One error for every resource."""
    return incremental_response(
        ConfigChangeOutcome(resource.resource_type, resource.resource_name, None, error, error.text)
        for resource in request.resources
    )


HANDLER = Handler(handle, refuse)

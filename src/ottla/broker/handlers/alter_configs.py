"""AlterConfigs, key 33: replace all settings of topics and brokers; what is not named returns to its default.

Versions: 0 to 2.
Behaviour: see `settings.config_changes`. A change takes effect at once and survives a restart. Topic
settings can be changed at any broker.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.settings.config_changes import (
    ConfigChangeOutcome,
    replacement_outcomes,
    replacement_response,
)
from ottla.model.error_codes import Code
from ottla.wire.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse


def handle(inquiry: Inquiry, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Decide, then do."""
    outcomes = replacement_outcomes(request, inquiry.broker.settings.view(inquiry.broker.broker_id))
    return replacement_response(inquiry.broker.settings.carry_out(outcomes))


def refuse(request: AlterConfigsRequest, error: Code, _version: int) -> AlterConfigsResponse:
    """One error for every resource."""
    return replacement_response(
        ConfigChangeOutcome(resource.resource_type, resource.resource_name, None, error, error.text)
        for resource in request.resources
    )


HANDLER = Handler(handle, refuse)

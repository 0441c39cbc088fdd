"""AlterConfigs, key 33: replace all settings of topics and brokers; what is not named returns to its default.

Versions: 0 to 2.
Behaviour: see `ottla.broker.config_changes`. What is changed counts at once and after a restart. Settings of
topics can be changed at any broker.
"""

from __future__ import annotations

from ottla.broker import live_settings
from ottla.broker.config_changes import Outcome, replacement_outcomes, replacement_response
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.versions import VersionRange


def handle(inquiry: Inquiry, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Decide, then do."""
    outcomes = replacement_outcomes(request, live_settings.view(inquiry.cluster, inquiry.node.broker_id))
    return replacement_response(live_settings.carry_out(inquiry.cluster, outcomes))


def refuse(request: AlterConfigsRequest, error: Code, _version: int) -> AlterConfigsResponse:
    """One error for every resource."""
    return replacement_response(
        Outcome(one.resource_type, one.resource_name, None, error, error.text) for one in request.resources
    )


HANDLER = Handler(AlterConfigsRequest, VersionRange(0, 2), handle, refuse)

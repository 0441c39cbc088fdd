"""IncrementalAlterConfigs, key 44: change single settings of topics and brokers.

Versions: 0 to 1.
Behaviour: see `ottla.broker.config_changes`. What is changed counts at once and after a restart; of a
resource either all changes are made or none. Settings of topics can be changed at any broker.
"""

from __future__ import annotations

from ottla.broker import live_settings
from ottla.broker.config_changes import Outcome, incremental_outcomes, incremental_response
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.versions import VersionRange


def handle(inquiry: Inquiry, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Decide, then do."""
    outcomes = incremental_outcomes(request, live_settings.view(inquiry.cluster, inquiry.node.broker_id))
    return incremental_response(live_settings.carry_out(inquiry.cluster, outcomes))


def refuse(
    request: IncrementalAlterConfigsRequest, error: Code, _version: int
) -> IncrementalAlterConfigsResponse:
    """One error for every resource."""
    return incremental_response(
        Outcome(one.resource_type, one.resource_name, None, error, error.text) for one in request.resources
    )


HANDLER = Handler(IncrementalAlterConfigsRequest, VersionRange(0, 1), handle, refuse)

"""UpdateFeatures, key 57: change the levels of the cluster's features.

Versions: 0 to 2. From 2 on the answer lists no features.
Behaviour: a level is what this broker does, and none can change: asking for the level that a feature has
changes nothing. Another level fails the whole request, as in Kafka.
"""

from __future__ import annotations

from ottla.broker.handlers.api_versions import FEATURES
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.update_features import (
    FeatureResult,
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

NO_RESULTS_SINCE = 2


def handle(inquiry: Inquiry, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Refuse every level but the present one."""
    for update in request.feature_updates:
        reason = _reason(update)
        if reason:
            return UpdateFeaturesResponse(
                error_code=Code.INVALID_UPDATE_VERSION,
                error_message="The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}",
            )
    updates = request.feature_updates if inquiry.version < NO_RESULTS_SINCE else []
    results = [FeatureResult(feature=update.feature, error_message=None) for update in updates]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _reason(update: FeatureUpdate) -> str:
    """Return why the level cannot be had; "" if it can."""
    level = FEATURES.get(update.feature)
    if level is None:
        return f"This broker has {', '.join(FEATURES)}"
    return "" if level == update.max_version_level else f"Its level is {level} and cannot change"


def refuse(_request: UpdateFeaturesRequest, error: Code, _version: int) -> UpdateFeaturesResponse:
    """One error for the whole request."""
    return UpdateFeaturesResponse(error_code=error, error_message=error.text)


HANDLER = Handler(handle, refuse)

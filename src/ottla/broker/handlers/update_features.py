"""UpdateFeatures, key 57: change the levels of the cluster's features.

Versions: 0 to 2. From 2 on there is one error for all features.
Behaviour: a level is what this broker does, and none can change: asking for the level that a feature has
changes nothing, and every other level is refused, with Kafka's code.
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
from ottla.wire.versions import VersionRange

ONE_ERROR_SINCE = 2


def handle(inquiry: Inquiry, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Refuse every level but the present one."""
    if not request.feature_updates:
        return refuse(request, Code.INVALID_REQUEST, inquiry.version)
    reasons = {update.feature: _reason(update) for update in request.feature_updates}
    wrong = [reason for reason in reasons.values() if reason]
    if wrong and inquiry.version >= ONE_ERROR_SINCE:
        return UpdateFeaturesResponse(error_code=Code.INVALID_UPDATE_VERSION, error_message=wrong[0])
    if inquiry.version >= ONE_ERROR_SINCE:
        return UpdateFeaturesResponse(error_message=None)
    results = [
        FeatureResult(
            feature=name,
            error_code=Code.INVALID_UPDATE_VERSION if reason else Code.NONE,
            error_message=reason,
        )
        for name, reason in reasons.items()
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _reason(update: FeatureUpdate) -> str | None:
    level = FEATURES.get(update.feature)
    if level is None:
        return f"{update.feature}: this broker has {', '.join(FEATURES)}"
    if level != update.max_version_level:
        return f"{update.feature} has level {level}, and no other: {update.max_version_level} is not possible"
    return None


def refuse(_request: UpdateFeaturesRequest, error: Code, _version: int) -> UpdateFeaturesResponse:
    """One error for the whole request."""
    return UpdateFeaturesResponse(error_code=error, error_message=error.text)


HANDLER = Handler(UpdateFeaturesRequest, VersionRange(0, 2), handle, refuse)

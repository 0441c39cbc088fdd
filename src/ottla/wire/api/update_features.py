"""UpdateFeatures, key 57: raise or lower the levels of the features of a cluster.

Version notes: flexible from the start. 1 says how a level may change instead of whether it may fall, and can
only validate. From 2 on there is one error for all features.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    request,
    response,
    string,
    struct,
)


@struct
class FeatureUpdate:
    feature: str = field(string)
    max_version_level: int = field(int16)
    allow_downgrade: bool = field(boolean, until=0)
    upgrade_type: int = field(int8, since=1, default=1)


@request(key=57, versions=2, flexible=0)
class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    timeout_ms: int = field(int32, default=60000)
    feature_updates: list[FeatureUpdate] = field(array(FeatureUpdate))
    validate_only: bool = field(boolean, since=1)


@struct
class FeatureResult:
    feature: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)


@response(UpdateFeaturesRequest)
class UpdateFeaturesResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    results: list[FeatureResult] = field(array(FeatureResult), until=1, ignorable=True)

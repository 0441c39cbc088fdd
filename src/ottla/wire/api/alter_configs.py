"""AlterConfigs, key 33: replace all settings of a resource; settings that are not named return to their
defaults.
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
class AlterConfig:
    name: str = field(string)
    value: str | None = field(string, nullable_since=0)


@struct
class AlterResource:
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[AlterConfig] = field(array(AlterConfig))


@request(key=33, versions=2, flexible=2)
class AlterConfigsRequest(Request["AlterConfigsResponse"]):
    resources: list[AlterResource] = field(array(AlterResource))
    validate_only: bool = field(boolean)


@struct
class AlteredResource:
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    resource_type: int = field(int8)
    resource_name: str = field(string)


@response(AlterConfigsRequest)
class AlterConfigsResponse(Response):
    throttle_time_ms: int = field(int32)
    responses: list[AlteredResource] = field(array(AlteredResource))

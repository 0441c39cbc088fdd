"""IncrementalAlterConfigs, key 44: change single settings of a resource.

`config_operation` is 0 set, 1 delete, 2 append to a list, 3 subtract from a list.
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
class IncrementalAlterConfig:
    name: str = field(string)
    config_operation: int = field(int8)
    value: str | None = field(string, nullable_since=0)


@struct
class IncrementalAlterResource:
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[IncrementalAlterConfig] = field(array(IncrementalAlterConfig))


@request(key=44, versions=1, flexible=1)
class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"]):
    resources: list[IncrementalAlterResource] = field(array(IncrementalAlterResource))
    validate_only: bool = field(boolean)


@struct
class IncrementalAlteredResource:
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    resource_type: int = field(int8)
    resource_name: str = field(string)


@response(IncrementalAlterConfigsRequest)
class IncrementalAlterConfigsResponse(Response):
    throttle_time_ms: int = field(int32)
    responses: list[IncrementalAlteredResource] = field(array(IncrementalAlteredResource))

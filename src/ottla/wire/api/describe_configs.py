"""DescribeConfigs, key 32: settings of topics, brokers and the like.

Version notes: 0 only says whether a value is the default; 1 says where it comes from, with synonyms. 3
adds the type and documentation.
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
class DescribeConfigsResource:
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configuration_keys: list[str] | None = field(array(string), nullable_since=0)


@request(key=32, versions=4, flexible=4)
class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    resources: list[DescribeConfigsResource] = field(array(DescribeConfigsResource))
    include_synonyms: bool = field(boolean, since=1)
    include_documentation: bool = field(boolean, since=3)


@struct
class ConfigSynonym:
    name: str = field(string)
    value: str | None = field(string, nullable_since=1)
    source: int = field(int8)


@struct
class DescribedConfig:
    name: str = field(string)
    value: str | None = field(string, nullable_since=0)
    read_only: bool = field(boolean)
    is_default: bool = field(boolean, until=0)
    config_source: int = field(int8, since=1, default=-1, ignorable=True)
    is_sensitive: bool = field(boolean)
    synonyms: list[ConfigSynonym] = field(array(ConfigSynonym), since=1, ignorable=True)
    config_type: int = field(int8, since=3, ignorable=True)
    documentation: str | None = field(string, since=3, nullable_since=3, ignorable=True)


@struct
class DescribedResource:
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[DescribedConfig] = field(array(DescribedConfig))


@response(DescribeConfigsRequest)
class DescribeConfigsResponse(Response):
    throttle_time_ms: int = field(int32)
    results: list[DescribedResource] = field(array(DescribedResource))

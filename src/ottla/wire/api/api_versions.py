"""ApiVersions, key 18: which APIs in which versions the broker answers.

Version notes: a client may ask in a version that the broker does not know; the answer is then version 0
with error 35, which is why the response header is always version 0. 3 adds the client's name and the
cluster's features; 4 may list features whose lowest level is 0. From 5 on a client may name the cluster and
the broker that it means to reach; another broker answers with error 129.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    boolean,
    field,
    int16,
    int32,
    int64,
    request,
    response,
    string,
    struct,
)


@request(key=18, versions=5, flexible=3)
class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    client_software_name: str = field(string, since=3, ignorable=True)
    client_software_version: str = field(string, since=3, ignorable=True)
    cluster_id: str | None = field(string, since=5, nullable_since=5, default=None, ignorable=True)
    node_id: int = field(int32, since=5, default=-1, ignorable=True)


@struct
class ApiVersion:
    api_key: int = field(int16)
    min_version: int = field(int16)
    max_version: int = field(int16)


@struct
class SupportedFeature:
    name: str = field(string)
    min_version: int = field(int16)
    max_version: int = field(int16)


@struct
class FinalizedFeature:
    name: str = field(string)
    max_version_level: int = field(int16)
    min_version_level: int = field(int16)


@response(ApiVersionsRequest)
class ApiVersionsResponse(Response):
    error_code: int = field(int16)
    api_keys: list[ApiVersion] = field(array(ApiVersion))
    throttle_time_ms: int = field(int32, since=1, ignorable=True)
    supported_features: list[SupportedFeature] = field(
        array(SupportedFeature), since=3, tag=0, ignorable=True
    )
    finalized_features_epoch: int = field(int64, since=3, default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeature] = field(
        array(FinalizedFeature), since=3, tag=2, ignorable=True
    )
    zk_migration_ready: bool = field(boolean, since=3, tag=3, ignorable=True)

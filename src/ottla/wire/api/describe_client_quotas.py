"""DescribeClientQuotas, key 48: the quotas of users, clients and addresses.

A filter matches a name (0), the default entity (1), or any name (2). Entries are null with an error.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    boolean,
    field,
    float64,
    int8,
    int16,
    int32,
    request,
    response,
    string,
    struct,
)


@struct
class QuotaFilter:
    entity_type: str = field(string)
    match_type: int = field(int8)
    match: str | None = field(string, nullable_since=0)


@request(key=48, versions=1, flexible=1)
class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"]):
    components: list[QuotaFilter] = field(array(QuotaFilter))
    strict: bool = field(boolean)


@struct
class QuotaEntity:
    entity_type: str = field(string)
    entity_name: str | None = field(string, nullable_since=0)


@struct
class QuotaValue:
    key: str = field(string)
    value: float = field(float64)


@struct
class QuotaEntry:
    entity: list[QuotaEntity] = field(array(QuotaEntity))
    values: list[QuotaValue] = field(array(QuotaValue))


@response(DescribeClientQuotasRequest)
class DescribeClientQuotasResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    entries: list[QuotaEntry] | None = field(array(QuotaEntry), nullable_since=0)

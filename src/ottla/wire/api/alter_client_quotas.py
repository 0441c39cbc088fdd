"""AlterClientQuotas, key 49: set or remove quotas; a name of null is the default entity."""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    boolean,
    field,
    float64,
    int16,
    int32,
    request,
    response,
    string,
    struct,
)


@struct
class AlterQuotaEntity:
    entity_type: str = field(string)
    entity_name: str | None = field(string, nullable_since=0)


@struct
class QuotaChange:
    key: str = field(string)
    value: float = field(float64)
    remove: bool = field(boolean)


@struct
class QuotaChanges:
    entity: list[AlterQuotaEntity] = field(array(AlterQuotaEntity))
    ops: list[QuotaChange] = field(array(QuotaChange))


@request(key=49, versions=1, flexible=1)
class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"]):
    entries: list[QuotaChanges] = field(array(QuotaChanges))
    validate_only: bool = field(boolean)


@struct
class QuotaAnswer:
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    entity: list[AlterQuotaEntity] = field(array(AlterQuotaEntity))


@response(AlterClientQuotasRequest)
class AlterClientQuotasResponse(Response):
    throttle_time_ms: int = field(int32)
    entries: list[QuotaAnswer] = field(array(QuotaAnswer))

"""DescribeClientQuotas, key 48: quotas of users, client ids and IP addresses that match a filter.

Versions: 0 to 1.
Behaviour: see `settings.quotas`.
"""

from __future__ import annotations

from ottla.broker.serving.client_quotas import KIND
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.settings.quotas import entity_filter, entity_of
from ottla.broker.settings.topic_settings import ConfigRefused
from ottla.model.error_codes import Code
from ottla.wire.api.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaEntity,
    QuotaEntry,
    QuotaValue,
)


def handle(inquiry: Inquiry, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """List the quotas of each entity that the filter finds."""
    try:
        wanted = entity_filter(request.components, strict=request.strict)
    except ConfigRefused as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.reason, entries=None)
    entries = []
    for key, quotas in inquiry.broker.store.catalog.entities.get(KIND, {}).items():
        entity = entity_of(key)
        if wanted.matches(entity):
            parts = [QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()]
            values = [QuotaValue(key=name, value=value) for name, value in quotas.items()]
            entries.append(QuotaEntry(entity=parts, values=values))
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def refuse(_request: DescribeClientQuotasRequest, error: Code, _version: int) -> DescribeClientQuotasResponse:
    """One error for the whole request."""
    return DescribeClientQuotasResponse(error_code=error, error_message=error.text, entries=None)


HANDLER = Handler(handle, refuse)

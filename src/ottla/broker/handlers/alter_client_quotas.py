"""AlterClientQuotas, key 49: set or remove quotas of users, client ids and IP addresses.

Versions: 0 to 1.
Behaviour: see `settings.quotas`. They are kept through restarts and described by DescribeClientQuotas; either
all changes of an entity are made or none.
"""

from __future__ import annotations

from ottla.broker.serving.client_quotas import KIND
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.settings.quotas import changed, entity_key
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    QuotaAnswer,
    QuotaChanges,
)


def handle(inquiry: Inquiry, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Change the quotas of each entity."""
    answers = []
    for changes in request.entries:
        answer = QuotaAnswer(entity=changes.entity, error_message=None)
        try:
            _change(inquiry, changes, validate_only=request.validate_only)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, getattr(error, "reason", str(error))
        answers.append(answer)
    return AlterClientQuotasResponse(entries=answers)


def _change(inquiry: Inquiry, changes: QuotaChanges, *, validate_only: bool) -> None:
    key = entity_key({part.entity_type: part.entity_name for part in changes.entity})
    after = changed(inquiry.broker.store.catalog.entity(KIND, key), changes)
    if not validate_only:
        inquiry.broker.settings.set_entities(KIND, {key: after})
        inquiry.broker.quotas.limits.reload()


def refuse(request: AlterClientQuotasRequest, error: Code, _version: int) -> AlterClientQuotasResponse:
    """One error for every entity."""
    answers = [
        QuotaAnswer(error_code=error, error_message=error.text, entity=changes.entity)
        for changes in request.entries
    ]
    return AlterClientQuotasResponse(entries=answers)


HANDLER = Handler(handle, refuse)

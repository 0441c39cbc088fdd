"""Who may do what, and how much: ACLs and quotas. They are shown, not changed."""

from __future__ import annotations

from enum import IntEnum

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.admin import Acl, Admin, Operation, PatternType, Permission, QuotaEntity, ResourceType
from ottla.console.app import console_of
from ottla.console.paging import part_of
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError

UNITS = {
    "producer_byte_rate": "bytes a second",
    "consumer_byte_rate": "bytes a second",
    "request_percentage": "% of a thread",
    "controller_mutation_rate": "changes a second",
    "connection_creation_rate": "connections a second",
}


async def acls(request: Request) -> Response:
    """GET /acls?q=&page="""
    console = console_of(request)
    wanted = request.query_params.get("q", "")
    rules: list[dict[str, str]] = []
    error = ""
    has_authorizer = True
    try:
        acls = await run_in_threadpool(console.reader.ask, Admin.describe_acls)
        rules = [rule for rule in map(_shown, acls) if wanted.lower() in " ".join(rule.values()).lower()]
    except OttlaError as failure:
        has_authorizer = not (
            isinstance(failure, KafkaError) and failure.error.code == Code.SECURITY_DISABLED
        )
        error = str(failure)
    part = part_of(rules, request.query_params.get("page", ""))
    return console.page(request, "acls.html", part=part, q=wanted, error=error, has_authorizer=has_authorizer)


def _shown(acl: Acl) -> dict[str, str]:
    return {
        "principal": acl.principal,
        "permission": _name(Permission, acl.permission),
        "operation": _name(Operation, acl.operation),
        "resource": _name(ResourceType, acl.resource_type),
        "name": acl.name,
        "pattern": _name(PatternType, acl.pattern),
        "host": acl.host,
    }


def _name(kind: type[IntEnum], number: int) -> str:
    """The name of a member; its number if only newer brokers have it."""
    known = {member.value: member.name.lower().replace("_", " ") for member in kind}
    return known.get(number, str(number))


async def quotas(request: Request) -> Response:
    """GET /quotas?page="""
    console = console_of(request)
    rows: list[tuple[str, str, float, str]] = []
    error = ""
    try:
        quotas = await run_in_threadpool(console.reader.ask, lambda admin: admin.describe_client_quotas())
        rows = sorted(
            (_whom(entity), name, value, UNITS.get(name, ""))
            for entity, limits in quotas.items()
            for name, value in limits.items()
        )
    except OttlaError as failure:
        error = str(failure)
    part = part_of(rows, request.query_params.get("page", ""))
    return console.page(request, "quotas.html", part=part, error=error)


def _whom(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {name or '(all others)'}" for kind, name in entity.parts.items())


ROUTES = [Route("/acls", acls), Route("/quotas", quotas)]

"""Quotas of clients, users and addresses, and passwords of users, for kafka-configs.

An entity is a user, a client, both together, or an address. The name "" is the default for all that have no
quota of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeVar

from ottla.admin import Admin, ScramPassword, ScramRemoval
from ottla.cli.kafka.broker_links import linked
from ottla.cli.kafka.java_order import java_order, java_order_by
from ottla.cli.kafka.tool import ToolRefused, show
from ottla.client.connection import Connection
from ottla.model.error_codes import Code
from ottla.model.errors import AdminErrors, KafkaError
from ottla.model.java_hashes import java_hash
from ottla.security.scram import ITERATIONS_MIN, MECHANISM_NUMBERS
from ottla.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    QuotaChange,
    QuotaChanges,
)
from ottla.wire.api.describe_client_quotas import DescribeClientQuotasRequest, QuotaEntry, QuotaFilter
from ottla.wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}
"""The names of entity types in kafka-configs, and in the protocol."""

QUOTAS = {
    "users": ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"),
    "ips": ("connection_creation_rate",),
}
QUOTAS["clients"] = QUOTAS["users"]
_WORDS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_MECHANISMS = {number: name for name, number in MECHANISM_NUMBERS.items()}
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]+),)?password=(.*)", re.DOTALL)
_EXACT, _DEFAULT, _ANY = 0, 1, 2
_NO_SUCH_USER = 91
_SMALLEST_TABLE = 1
"""Java creates these maps with the size of their content."""

Entity = Sequence[tuple[str, str | None]]
"""Types and names: "" is the default entity, None all entities."""


def describe(properties: Mapping[str, object], entity: Entity) -> None:
    """Print the quotas, and the credentials of users."""
    with linked(properties) as (pool, _):
        link = pool.to_any()
        for quota in _quotas(link, entity):
            names = {part.entity_type: part.entity_name for part in quota.entity}
            who = ", ".join(_who(kind, names[kind]) for kind in _WORDS if kind in names)
            values = {entry.key: entry.value for entry in quota.values}
            text = ", ".join(
                f"{key}={_java_number(values[key])}" for key in java_order(values, _SMALLEST_TABLE)
            )
            show(f"Quota configs for {who} are {text}")
        kinds = [kind for kind, _ in entity]
        if kinds == ["users"] and entity[0][1] != "":
            _describe_credentials(link, entity[0][1])


def alter(properties: Mapping[str, object], entity: Entity, changes: Mapping[str, str | None]) -> None:
    """Set quotas; None removes one."""
    _check(entity, changes)
    if entity[0][0] == "users" and any(name in MECHANISM_NUMBERS for name in changes):
        _alter_credentials(properties, entity, changes)
        return
    with linked(properties) as (pool, _):
        link = pool.to_any()
        known = {entry.key for quota in _quotas(link, entity) for entry in quota.values}
        missing = [name for name, value in changes.items() if value is None and name not in known]
        if missing:
            raise ToolRefused(f"Invalid config(s): {','.join(missing)}")
        wanted = QuotaChanges(
            entity=[
                AlterQuotaEntity(entity_type=KINDS[kind], entity_name=name or None) for kind, name in entity
            ],
            ops=[
                QuotaChange(key=name, value=_number(name, value), remove=value is None)
                for name, value in changes.items()
            ],
        )
        answer = _response_to(link, AlterClientQuotasRequest(entries=[wanted], validate_only=False))
        for entry in answer.entries:
            if entry.error_code:
                raise _failure(entry.error_code, entry.error_message)


def _quotas(link: Connection, entity: Entity) -> list[QuotaEntry]:
    """The quotas in the order of Java's map."""
    matches = {None: _ANY, "": _DEFAULT}
    components = [
        QuotaFilter(entity_type=KINDS[kind], match_type=matches.get(name, _EXACT), match=name or None)
        for kind, name in entity
    ]
    answer = _response_to(link, DescribeClientQuotasRequest(components=components, strict=True))
    if answer.error_code:
        raise _failure(answer.error_code, answer.error_message)
    return java_order_by(answer.entries or [], _entity_hash, _SMALLEST_TABLE)


def _entity_hash(entry: QuotaEntry) -> int:
    names = (java_hash(part.entity_name) if part.entity_name is not None else 0 for part in entry.entity)
    kinds = (java_hash(part.entity_type) for part in entry.entity)
    return 31 + sum(kind ^ name for kind, name in zip(kinds, names, strict=True))


def _java_number(value: float) -> str:
    """A number as Java prints a double: from ten million on with an exponent."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, exponent = f"{Decimal(repr(value)).normalize():e}".split("e")
    return f"{digits if '.' in digits else f'{digits}.0'}E{int(exponent)}"


def _who(kind: str, name: str | None) -> str:
    return f"the default {_WORDS[kind]}" if name is None else f"{_WORDS[kind]} '{name}'"


def _describe_credentials(link: Connection, user: str | None) -> None:
    users = None if user is None else [UserName(name=user)]
    answer = _response_to(link, DescribeUserScramCredentialsRequest(users=users))
    if answer.error_code:
        raise _failure(answer.error_code, answer.error_message)
    for result in answer.results:
        if result.error_code and result.error_code != _NO_SUCH_USER:
            raise _failure(result.error_code, result.error_message)
        text = ", ".join(
            f"{_MECHANISMS.get(credential_info.mechanism, 'UNKNOWN')}=iterations={credential_info.iterations}"
            for credential_info in result.credential_infos
        )
        if text:
            show(f"SCRAM credential configs for user-principal '{result.user}' are {text}")


def _alter_credentials(
    properties: Mapping[str, object], entity: Entity, changes: Mapping[str, str | None]
) -> None:
    user = entity[0][1]
    if not user:
        raise ToolRefused(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    if any(name in QUOTAS["users"] for name in changes):
        raise ToolRefused(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
            "--bootstrap-server."
        )
    with Admin(properties) as admin:
        only_user = [_credential(user, mechanism, value) for mechanism, value in changes.items()]
        try:
            admin.alter_user_scram_credentials(only_user)
        except AdminErrors as failed:
            raise failed.errors[user] from failed


def _credential(user: str, mechanism: str, text: str | None) -> ScramPassword | ScramRemoval:
    """Parse a credential of the command line: `iterations=8192,password=…`."""
    if text is None:
        return ScramRemoval(user, mechanism)
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise ToolRefused(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
    iterations = ITERATIONS_MIN if match[1] in (None, "-1") else int(match[1])
    if iterations < ITERATIONS_MIN:
        raise ToolRefused(
            f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {mechanism}"
        )
    return ScramPassword(user, mechanism, match[2], iterations)


def _check(entity: Entity, changes: Mapping[str, str | None]) -> None:
    kind = "clients" if len(entity) > 1 else entity[0][0]
    known = {*QUOTAS[kind], *(MECHANISM_NUMBERS if kind == "users" else ())}
    strange = {name: value for name, value in changes.items() if name not in known}
    if not strange:
        return
    what = {"ips": "connection quota configs", "users": "quota and SCRAM credential configs"}
    added = [name for name, value in strange.items() if value is not None]
    names = ",".join(strange) if kind == "ips" else _scala_names(added, strange)
    verb = "added" if added or kind == "ips" else "deleted"
    raise ToolRefused(
        f"Only {what.get(kind, 'quota configs')} can be {verb} for '{kind}' using --bootstrap-server. "
        f"Unexpected config names: {names}"
    )


def _scala_names(added: list[str], strange: Iterable[str]) -> str:
    """Names as Scala prints a collection."""
    return f"Set({', '.join(added)})" if added else f"ArrayBuffer({', '.join(strange)})"


def _number(name: str, text: str | None) -> float:
    try:
        return 0.0 if text is None else float(text)
    except ValueError:
        raise ToolRefused(f"Cannot parse quota configuration value for {name}: {text}") from None


def _response_to(link: Connection, message: Request[R]) -> R:
    if message.API.key not in link.versions.ranges:
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", message.API.name).upper()
        raise _failure(Code.UNSUPPORTED_VERSION, f"The node does not support {name}")
    return link.call(message)


def _failure(code: int, message: str | None) -> KafkaError:
    return KafkaError(code, f"quotas ({message})" if message else "quotas")

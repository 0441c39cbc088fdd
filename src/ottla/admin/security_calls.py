"""Admin's calls about security: ACLs, passwords of SCRAM, client quotas."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from enum import IntEnum
from typing import TypeVar, overload

from ottla.admin.access import ClusterAccess
from ottla.admin.admin_errors import all_results, answered, checked, only, response_error
from ottla.admin.security_values import QuotaEntity, ScramPassword, ScramRemoval
from ottla.model.acls import Acl, AclFilter, PatternType, Permission, ResourceType
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError, Unsupported
from ottla.model.permissions import Operation
from ottla.security.scram import ALGORITHMS, MECHANISM_NUMBERS, salted_password
from ottla.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    QuotaChange,
    QuotaChanges,
)
from ottla.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.api.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.api.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest
from ottla.wire.api.describe_acls import DescribeAclsRequest
from ottla.wire.api.describe_client_quotas import DescribeClientQuotasRequest, QuotaFilter
from ottla.wire.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ottla.wire.schema import Api, Request, Response

E = TypeVar("E", bound=IntEnum)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R", bound=Response)

Iterations = dict[str, int]
"""Iterations by mechanism."""
Quotas = dict[str, float]

_SALT_BYTES = 32
_EXACT, _DEFAULT, _ANY = range(3)
_MECHANISMS = {number: name for name, number in MECHANISM_NUMBERS.items()}
_ALL_ACLS = AclFilter()


class SecurityCalls:
    """A part of `AdminCalls`. Each is one request to the controller, repeated as `ClusterAccess` says."""

    _access: ClusterAccess

    # --- ACLs

    async def create_acls(self, acls: Acl | Iterable[Acl]) -> None:
        """Store ACLs. One that exists already stays."""
        if isinstance(acls, Acl):
            only(await self._create_acls([acls]))
        else:
            all_results(await self._create_acls(checked(acls, Acl)))

    async def describe_acls(self, wanted: AclFilter = _ALL_ACLS) -> tuple[Acl, ...]:
        """Return the ACLs that match a filter, by default all, sorted."""
        request = DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.name,
            pattern_type_filter=wanted.pattern,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )
        answer = await self._ask(request, "describing ACLs")
        return tuple(
            sorted(
                _acl(
                    resource.resource_type,
                    resource.resource_name,
                    resource.pattern_type,
                    (rule.principal, rule.host, rule.operation, rule.permission_type),
                )
                for resource in answer.resources
                for rule in resource.acls
            )
        )

    @overload
    async def delete_acls(self, filters: AclFilter) -> tuple[Acl, ...]: ...
    @overload
    async def delete_acls(self, filters: Iterable[AclFilter]) -> dict[AclFilter, tuple[Acl, ...]]: ...
    async def delete_acls(
        self, filters: AclFilter | Iterable[AclFilter]
    ) -> tuple[Acl, ...] | dict[AclFilter, tuple[Acl, ...]]:
        """Delete the ACLs that match filters, and return them."""
        return await answered(filters, AclFilter, self._delete_acls)

    async def _create_acls(self, acls: list[Acl]) -> dict[Acl, OttlaError | None]:
        async def attempt(some: list[Acl]) -> dict[Acl, OttlaError | None]:
            creations = [
                AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.name,
                    resource_pattern_type=acl.pattern,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in some
            ]
            results = (await self._call(CreateAclsRequest(creations=creations))).results
            return {
                acl: _outcome(result.error_code, result.error_message, f"creating the ACL {acl}")
                for acl, result in zip(some, results, strict=False)
            }

        return await self._settle(CreateAclsRequest.API, acls, attempt)

    async def _delete_acls(self, filters: list[AclFilter]) -> dict[AclFilter, tuple[Acl, ...] | OttlaError]:
        async def attempt(some: list[AclFilter]) -> dict[AclFilter, tuple[Acl, ...] | OttlaError]:
            rows = [
                DeleteAclsFilter(
                    resource_type_filter=acl_filter.resource_type,
                    resource_name_filter=acl_filter.name,
                    pattern_type_filter=acl_filter.pattern,
                    principal_filter=acl_filter.principal,
                    host_filter=acl_filter.host,
                    operation=acl_filter.operation,
                    permission_type=acl_filter.permission,
                )
                for acl_filter in some
            ]
            results = (await self._call(DeleteAclsRequest(filters=rows))).filter_results
            return {
                acl_filter: _deleted(acl_filter, result)
                for acl_filter, result in zip(some, results, strict=False)
            }

        return await self._settle(DeleteAclsRequest.API, filters, attempt)

    # --- passwords

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, Iterations]:
        """Return the iterations by mechanism of users that have a password; by default of all users."""
        names = None if users is None else [UserName(name=name) for name in checked(users, str)]
        answer = await self._ask(
            DescribeUserScramCredentialsRequest(users=names), "describing SCRAM credentials"
        )
        outcomes: dict[str, Iterations | OttlaError] = {}
        for user in answer.results:
            if user.error_code == Code.RESOURCE_NOT_FOUND:
                continue
            error = _outcome(user.error_code, user.error_message, f"credentials of {user.user}")
            outcomes[user.user] = error or {
                _MECHANISMS.get(info.mechanism, "UNKNOWN"): info.iterations for info in user.credential_infos
            }
        return all_results(outcomes)

    async def alter_user_scram_credentials(
        self, changes: ScramPassword | ScramRemoval | Iterable[ScramPassword | ScramRemoval]
    ) -> None:
        """Set or remove passwords of users.

        Errors are by user; Kafka accepts one change of a user per request.
        """
        listed = [changes] if isinstance(changes, ScramPassword | ScramRemoval) else list(changes)
        for change in listed:
            if change.mechanism not in ALGORITHMS:
                raise ConfigError(f"mechanism {change.mechanism!r}: {', '.join(ALGORITHMS)} have passwords")
        request = AlterUserScramCredentialsRequest(
            deletions=[
                ScramCredentialDeletion(name=change.user, mechanism=MECHANISM_NUMBERS[change.mechanism])
                for change in listed
                if isinstance(change, ScramRemoval)
            ],
            upsertions=[_upsertion(change) for change in listed if isinstance(change, ScramPassword)],
        )

        async def attempt(_: list[str]) -> dict[str, OttlaError | None]:
            return {
                result.user: _outcome(result.error_code, result.error_message, f"password of {result.user}")
                for result in (await self._call(request)).results
            }

        users = list(dict.fromkeys(change.user for change in listed))
        api = AlterUserScramCredentialsRequest.API
        outcomes = await self._settle(api, users, attempt, is_repeatable=not request.deletions)
        if isinstance(changes, ScramPassword | ScramRemoval):
            only(outcomes)
        else:
            all_results(outcomes)

    # --- quotas

    async def describe_client_quotas(
        self, wanted: QuotaEntity | None = None, *, any_of: Iterable[str] = (), strict: bool = False
    ) -> dict[QuotaEntity, Quotas]:
        """Return quotas by entity: of `wanted`, and of all names of the types `any_of` (user, client-id, ip).

        With `strict` an entity has these types and no others; by default all entities are returned.
        """
        names = (wanted or QuotaEntity()).parts
        components = [
            QuotaFilter(entity_type=kind, match_type=_EXACT if name else _DEFAULT, match=name or None)
            for kind, name in names.items()
        ]
        components += [QuotaFilter(entity_type=kind, match_type=_ANY, match=None) for kind in any_of]
        request = DescribeClientQuotasRequest(components=components, strict=strict)
        entries = (await self._ask(request, "describing client quotas")).entries or []
        return {
            _entity({part.entity_type: part.entity_name for part in entry.entity}): {
                value.key: value.value for value in entry.values
            }
            for entry in entries
        }

    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set quotas of entities; None removes one, and others stay. An entity gets all changes or none."""

        async def attempt(some: list[QuotaEntity]) -> dict[QuotaEntity, OttlaError | None]:
            entries = [
                QuotaChanges(
                    entity=[
                        AlterQuotaEntity(entity_type=kind, entity_name=name or None)
                        for kind, name in entity.parts.items()
                    ],
                    ops=[
                        QuotaChange(key=key, value=value or 0.0, remove=value is None)
                        for key, value in changes[entity].items()
                    ],
                )
                for entity in some
            ]
            answer = await self._call(AlterClientQuotasRequest(entries=entries, validate_only=validate_only))
            return {
                _entity({part.entity_type: part.entity_name for part in entry.entity}): _outcome(
                    entry.error_code, entry.error_message, "quotas"
                )
                for entry in answer.entries
            }

        all_results(await self._settle(AlterClientQuotasRequest.API, list(changes), attempt))

    # --- asking

    async def _ask(self, request: Request[R], purpose: str) -> R:
        """Return the answer to a request; raises the error of the whole answer."""

        async def attempt(_: list[str]) -> dict[str, R | OttlaError]:
            answer = await self._call(request)
            code, message = getattr(answer, "error_code", 0), getattr(answer, "error_message", None)
            return {purpose: _outcome(code, message, purpose) or answer}

        return only(await self._settle(request.API, [purpose], attempt))

    async def _call(self, request: Request[R]) -> R:
        return await (await self._access.controller()).call(request)

    async def _settle(
        self,
        api: Api,
        keys: Iterable[K],
        attempt: Callable[[list[K]], Awaitable[Mapping[K, V | OttlaError]]],
        *,
        is_repeatable: bool = True,
    ) -> dict[K, V | OttlaError]:
        if not await self._access.has(api):
            raise Unsupported(f"{api.name}: {await self._access.no_such_call(api)}")
        return await self._access.settle(keys, attempt, is_repeatable=is_repeatable)


def _outcome(code: int, message: str | None, subject: str) -> KafkaError | None:
    return response_error(code, message, subject) if code else None


def _acl(resource_type: int, name: str, pattern: int, entry: tuple[str, str, int, int]) -> Acl:
    principal, host, operation, permission = entry
    return Acl(
        _known(ResourceType, resource_type),
        name,
        _known(PatternType, pattern),
        principal,
        host,
        _known(Operation, operation),
        _known(Permission, permission),
    )


def _known(kind: type[E], number: int) -> int:
    """Return the member of an enumeration, or the number of one that only newer brokers have."""
    return kind(number) if number in kind.__members__.values() else number


def _deleted(acl_filter: AclFilter, result: DeleteAclsFilterResult) -> tuple[Acl, ...] | OttlaError:
    subject = f"deleting ACLs of {acl_filter}"
    errors = [(result.error_code, result.error_message)]
    errors += [(acl.error_code, acl.error_message) for acl in result.matching_acls]
    for code, message in errors:
        if code:
            return response_error(code, message, subject)
    return tuple(
        sorted(
            _acl(
                acl.resource_type,
                acl.resource_name,
                acl.pattern_type,
                (acl.principal, acl.host, acl.operation, acl.permission_type),
            )
            for acl in result.matching_acls
        )
    )


def _upsertion(change: ScramPassword) -> ScramCredentialUpsertion:
    salt = secrets.token_bytes(_SALT_BYTES)
    return ScramCredentialUpsertion(
        name=change.user,
        mechanism=MECHANISM_NUMBERS[change.mechanism],
        iterations=change.iterations,
        salt=salt,
        salted_password=salted_password(
            ALGORITHMS[change.mechanism], change.password, salt, change.iterations
        ),
    )


def _entity(names: Mapping[str, str | None]) -> QuotaEntity:
    """Return an entity of the protocol, where the default has no name."""
    texts = {kind: name or "" for kind, name in names.items()}
    return QuotaEntity(texts.get("user"), texts.get("client-id"), texts.get("ip"))

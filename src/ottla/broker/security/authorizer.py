"""The authorizer: evaluates ACLs as Kafka's StandardAuthorizer does.

A rule that denies wins over one that allows. READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS
implies DESCRIBE_CONFIGS, where a rule allows. A resource without rules is for super users only, unless
allow.everyone.if.no.acl.found says otherwise.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence

from ottla.broker.security.principal import Principal
from ottla.broker.settings.security_settings import AuthorizerSettings
from ottla.broker.storage.catalog import Catalog
from ottla.model.acls import (
    ANY_USER,
    OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.model.permissions import Operation

audit = logging.getLogger("ottla.audit")

KIND = "acls"
DECISIONS_MAX = 20_000
"""How many decisions are cached; then the cache is cleared."""
_IMPLIED = {
    Operation.DESCRIBE: {
        Operation.DESCRIBE,
        Operation.READ,
        Operation.WRITE,
        Operation.DELETE,
        Operation.ALTER,
    },
    Operation.DESCRIBE_CONFIGS: {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS},
}


class Authorizer:
    """Owned by the broker's loop. `changes` counts: what was allowed before a change is looked up again."""

    def __init__(self, settings: AuthorizerSettings, catalog: Catalog) -> None:
        self._settings = settings
        self._catalog = catalog
        self.changes = 0
        self._acls: dict[Acl, None] = {}
        self._literal: dict[tuple[int, str], list[Acl]] = {}
        self._prefixed: dict[tuple[int, str], list[Acl]] = {}
        self._decisions: dict[tuple[str, str, int, int, str], bool] = {}
        self._index()

    # --- asking

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether a client may do an operation on a resource."""
        key = (str(principal), host, operation.value, resource_type.value, name)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            decision = self._decisions[key] = self._decide(*key)
        return decision

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        if principal in self._settings.super_users:
            return True
        about = list(self._about(resource_type, name))
        if not about:
            return self._settings.allows_if_no_acl
        said = {acl.permission for acl in about if _concerns(acl, principal, host, operation)}
        return Permission.DENY not in said and Permission.ALLOW in said

    def _about(self, resource_type: int, name: str) -> Iterator[Acl]:
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        for (kind, prefix), acls in self._prefixed.items():
            if kind == resource_type and name.startswith(prefix):
                yield from acls

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there is, or could be, a resource on which a client may do an operation."""
        if self.allows(principal, host, operation, resource_type, "hardcode"):  # Kafka's own word
            return True
        who = str(principal)
        mine = [acl for acl in self._acls if acl.resource_type == resource_type]
        mine = [acl for acl in mine if _concerns(acl, who, host, operation.value)]
        denied = [acl for acl in mine if acl.permission == Permission.DENY]
        if any(acl.name == WILDCARD and acl.pattern == PatternType.LITERAL for acl in denied):
            return False
        return any(not _covered(acl, denied) for acl in mine if acl.permission == Permission.ALLOW)

    def operations(
        self, principal: Principal, host: str, possible: int, resource_type: ResourceType, name: str
    ) -> int:
        """Return those of the possible operations, as bits, that a client may do."""
        return sum(
            1 << operation
            for operation in Operation
            if possible >> operation & 1 and self.allows(principal, host, operation, resource_type, name)
        )

    # --- changing

    def matching(self, wanted: AclFilter) -> list[Acl]:
        """Return the ACLs that match a filter."""
        return [acl for acl in self._acls if wanted.meets(acl)]

    def create(self, acls: Iterable[Acl]) -> None:
        """Store ACLs. Raises StorageError."""
        self._catalog.set_entities(
            KIND, {json.dumps(acl): {"is_set": True} for acl in acls if acl not in self._acls}
        )
        self._index()

    def delete(self, acls: Iterable[Acl]) -> None:
        """Delete ACLs. Raises StorageError."""
        self._catalog.set_entities(KIND, {json.dumps(acl): {} for acl in acls if acl in self._acls})
        self._index()

    def _index(self) -> None:
        self.changes += 1
        self._decisions.clear()
        self._acls = {Acl(*json.loads(key)): None for key in self._catalog.entities.get(KIND, {})}
        self._literal, self._prefixed = {}, {}
        for acl in self._acls:
            table = self._literal if acl.pattern == PatternType.LITERAL else self._prefixed
            table.setdefault((acl.resource_type, acl.name), []).append(acl)


def _concerns(acl: Acl, principal: str, host: str, operation: int) -> bool:
    if acl.principal not in (principal, ANY_USER) or acl.host not in (host, WILDCARD):
        return False
    if acl.operation in (Operation.ALL, operation):
        return True
    return acl.permission == Permission.ALLOW and acl.operation in _IMPLIED.get(Operation(operation), ())


def _covered(allowed: Acl, denied: Sequence[Acl]) -> bool:
    """Whether a rule that denies covers everything that `allowed` gives."""
    for acl in denied:
        if acl.pattern == PatternType.PREFIXED and allowed.name.startswith(acl.name):
            return True
        if (acl.pattern, acl.name) == (allowed.pattern, allowed.name):
            return True
    return False


def log_denied(
    principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str, api: str
) -> None:
    """Write a refusal to the audit log."""
    audit.info(
        "%s is denied %s on %s:%s from %s for %s",
        principal,
        OPERATIONS[operation],
        resource_type.name,
        name,
        host,
        api,
    )


def log_admin(principal: Principal, host: str, api: str) -> None:
    """Write a change of the cluster to the audit log."""
    audit.info("%s from %s calls %s", principal, host, api)

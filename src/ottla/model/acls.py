"""ACLs as in Kafka: values, and filters. The numbers are those of the protocol."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ottla.model.permissions import Operation

WILDCARD = "*"
ANY_USER = "User:*"
OPERATIONS = {operation.value: operation.name for operation in Operation}


class ResourceType(IntEnum):
    """The kind of resource that an ACL is about."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of an ACL is compared. MATCH is for filters: every ACL that concerns a name."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether an ACL allows or denies."""

    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"


class Acl(NamedTuple):
    """One rule: a principal from a host may, or may not, do an operation on resources.

    >>> from ottla.admin import Acl, Operation, PatternType, Permission, ResourceType
    >>> orders = (ResourceType.TOPIC, "orders", PatternType.LITERAL)
    >>> Acl(*orders, "User:ann", "*", Operation.READ, Permission.ALLOW).principal
    'User:ann'
    """

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """A filter for ACLs; None and ANY stand for all.

    >>> from ottla.admin import AclFilter, ResourceType
    >>> AclFilter(ResourceType.TOPIC, "orders").principal is None
    True
    """

    resource_type: int = ResourceType.ANY
    name: str | None = None
    pattern: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def meets(self, acl: Acl) -> bool:
        """Whether an ACL matches the filter."""
        numbers = (
            (self.resource_type, acl.resource_type),
            (self.operation, acl.operation),
            (self.permission, acl.permission),
        )
        texts = ((self.principal, acl.principal), (self.host, acl.host))
        return (
            all(wanted in (1, actual) for wanted, actual in numbers)
            and all(wanted in (None, actual) for wanted, actual in texts)
            and self._names(acl)
        )

    def _names(self, acl: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern != PatternType.MATCH:
            return False
        if acl.pattern == PatternType.LITERAL:
            return acl.name == WILDCARD
        return self.name.startswith(acl.name)


def refusal(acl: Acl) -> str:
    """Return why an ACL cannot be created; "" if it can."""
    if acl.resource_type not in ResourceType.__members__.values() or acl.resource_type == ResourceType.ANY:
        return "Invalid resource type"
    if acl.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return "Invalid pattern type"
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        return "Invalid permission type"
    if acl.operation not in OPERATIONS or acl.operation == 1:
        return "Invalid operation type"
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    kind, _, name = acl.principal.partition(":")
    texts = {
        "Invalid empty resource name": acl.name,
        "Could not parse principal from `" + acl.principal + "`": kind and name,
        "The host must not be empty": acl.host,
    }
    return next((reason for reason, text in texts.items() if not text), "")

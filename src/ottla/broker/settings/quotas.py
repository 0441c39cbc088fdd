"""Client quotas, decided: which changes are allowed, and which entities a filter finds.

An entity is a mapping of types to names: {"user": "u", "client-id": None}, where None stands for all that
have no quota of their own. `entity_key` makes a text of it, under which it is stored. Rules and codes are
Kafka's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.settings.topic_settings import ConfigRefused
from ottla.model.error_codes import Code

if TYPE_CHECKING:
    from ottla.wire.api.alter_client_quotas import QuotaChanges
    from ottla.wire.api.describe_client_quotas import QuotaFilter

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES = (USER, CLIENT_ID, IP)
EXACT, DEFAULT, ANY = range(3)
FRACTION_MAX = 1e-6
LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1

Entity = Mapping[str, str | None]
Quotas = Mapping[str, float]

_CLIENT_LIMITS = {
    "producer_byte_rate": LONG_MAX,
    "consumer_byte_rate": LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
"""The largest whole number of each quota; None: fractions are allowed."""
_ADDRESS_LIMITS = {"connection_creation_rate": INT_MAX}
_HOST = r"[0-9A-Za-z](?:[0-9A-Za-z.:-]*[0-9A-Za-z])?|[0-9A-Fa-f:]+"


def entity_key(entity: Entity) -> str:
    """Return the text under which the quotas of an entity are stored."""
    return json.dumps(dict(sorted(entity.items())))


def entity_of(key: str) -> dict[str, str | None]:
    """Return the entity that is stored under a text."""
    entity: dict[str, str | None] = json.loads(key)
    return entity


def changed(current: Quotas, changes: QuotaChanges) -> dict[str, float]:
    """Return the quotas of an entity after changes. Raises ConfigRefused; then none is made."""
    entity = {part.entity_type: part.entity_name for part in changes.entity}
    if len(entity) < len(changes.entity):
        raise _refused("a quota names one type of entity twice")
    limits = _limits(entity)
    after = dict(current)
    names = [change.key for change in changes.ops]
    for change in changes.ops:
        if names.count(change.key) > 1:
            raise _refused(f"{change.key} is changed twice")
        if change.remove:
            after.pop(change.key, None)
        else:
            _check_value(limits, change.key, change.value)
            after[change.key] = change.value
    return after


def _limits(entity: Entity) -> Mapping[str, int | None]:
    if not entity:
        raise _refused("a quota of nobody: name a user, a client id or an IP address")
    for kind, name in entity.items():
        if kind not in TYPES:
            raise _refused(f"{kind!r} has no quotas: {', '.join(TYPES)} have")
        if name == "":
            raise _refused(f"{kind}: the name is empty; null stands for all")
    if IP not in entity:
        return _CLIENT_LIMITS
    if len(entity) > 1:
        raise _refused("quotas of an IP address hold for nothing else: leave user and client-id out")
    address = entity[IP]
    if address is not None and not re.fullmatch(_HOST, address):
        raise _refused(f"{address!r} is not an IP address or a host's name")
    return _ADDRESS_LIMITS


def _check_value(limits: Mapping[str, int | None], key: str, value: float) -> None:
    if key not in limits:
        raise _refused(f"{key} is not a quota of this entity: {', '.join(limits)}")
    if not value > 0:
        raise _refused(f"{key}={value}: it must be above 0")
    most = limits[key]
    if most is not None and (value > most or value % 1 > FRACTION_MAX):
        raise _refused(f"{key}={value}: it must be a whole number of at most {most}")


class EntityFilter(NamedTuple):
    """Which entities a request asks for: names by type, and types with any name."""

    exact: dict[str, str | None]
    any_name: set[str]
    strict: bool

    def matches(self, entity: Entity) -> bool:
        """Whether an entity has these types and names, and if `strict` no other types."""
        if self.strict and len(entity) != len(self.exact) + len(self.any_name):
            return False
        named = all(kind in entity and entity[kind] == name for kind, name in self.exact.items())
        return named and self.any_name <= entity.keys()


def entity_filter(components: list[QuotaFilter], *, strict: bool) -> EntityFilter:
    """Return the filter of a request. Raises ConfigRefused for one that makes no sense."""
    entity_filter = EntityFilter({}, set(), strict)
    for part in components:
        kind = part.entity_type
        if kind in entity_filter.exact or kind in entity_filter.any_name:
            raise _refused(f"the filter names {kind} twice")
        if not kind:
            raise _refused("the filter has an empty type")
        if kind not in TYPES:
            raise ConfigRefused(Code.UNSUPPORTED_VERSION, f"{kind!r} has no quotas: {', '.join(TYPES)} have")
        if part.match_type not in (EXACT, DEFAULT, ANY):
            raise _refused(f"{kind}: match type {part.match_type} is none of 0, 1 and 2")
        if (part.match is None) == (part.match_type == EXACT):
            raise _refused(f"{kind}: a name goes with match type 0, and only with it")
        if part.match_type == ANY:
            entity_filter.any_name.add(kind)
        else:
            entity_filter.exact[kind] = part.match
    types = entity_filter.exact.keys() | entity_filter.any_name
    if IP in types and len(types) > 1:
        raise _refused("quotas of IP addresses hold for nothing else: leave user and client-id out")
    return entity_filter


def _refused(reason: str) -> ConfigRefused:
    return ConfigRefused(Code.INVALID_REQUEST, reason)

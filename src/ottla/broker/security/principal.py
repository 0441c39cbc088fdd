"""Who a client is: a principal, and how the name in a certificate becomes one (ssl.principal.mapping.rules).

RULE:^CN=(.*?),OU=Users.*$/$1/L,DEFAULT      CN=Ann,OU=Users,O=Example → User:ann; others keep the whole name
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.model.errors import ConfigError

USER = "User"
_SHORT = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_OIDS = {"emailAddress": ("1.2.840.113549.1.9.1", "16"), "serialNumber": ("2.5.4.5", "13")}
"""Java has no short names for these, and writes their values as ASN.1: by OID, and the tag of their text."""
_SPECIAL = r'([,+"\\<>;])'
_RULE = r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)"
_GROUP = r"\$([0-9])"


class Principal(NamedTuple):
    """A user, as ACLs and super.users name it."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""A client that has not been asked for its name."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None: the whole name
    replacement: str
    case: str


class CertificateNames:
    """The rules of one listener. Raises ConfigError if they cannot be read."""

    def __init__(self, rules: str, setting: str = "ssl.principal.mapping.rules") -> None:
        self._rules: list[_Rule] = []
        at = 0
        while at < len(rules.strip()):
            match = re.compile(_RULE).match(rules.strip(), at)
            if match is None:
                raise ConfigError(f"{setting}={rules}: write RULE:pattern/replacement/[LU], or DEFAULT")
            self._rules.append(_rule(match, setting))
            at = match.end()

    def principal(self, certificate: Mapping[str, Any] | None) -> Principal | None:
        """Return the user of a certificate, as `getpeercert` returns it.

        ANONYMOUS without a certificate; None if no rule fits.
        """
        if not certificate:
            return ANONYMOUS
        name = distinguished_name(certificate)
        for rule in self._rules or [_Rule(None, "", "")]:
            if rule.pattern is None:
                return Principal(USER, name)
            match = rule.pattern.fullmatch(name)
            if match is not None:
                made = match.expand(rule.replacement)
                return Principal(USER, {"L": made.lower(), "U": made.upper()}.get(rule.case, made))
        return None


def _rule(match: re.Match[str], setting: str) -> _Rule:
    default, pattern, replacement, case = match.groups()
    if default:
        return _Rule(None, "", "")
    try:
        return _Rule(re.compile(pattern), re.sub(_GROUP, r"\\g<\1>", replacement), case)
    except re.error as error:
        raise ConfigError(f"{setting}: the pattern {pattern} cannot be read: {error}") from None


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """Return the subject as Java writes it (RFC 2253): the last part first."""
    return ",".join(
        "+".join(_attribute(name, value) for name, value in attributes)
        for attributes in reversed(certificate.get("subject", ()))
    )


def _attribute(name: str, value: str) -> str:
    if name in _OIDS:
        oid, tag = _OIDS[name]
        return f"{oid}=#{tag}{len(value.encode()):02x}{value.encode().hex()}"
    escaped = re.sub(_SPECIAL, r"\\\1", value)
    if escaped.startswith((" ", "#")):
        escaped = f"\\{escaped}"
    return f"{_SHORT.get(name, name)}={escaped}"

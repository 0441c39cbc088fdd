"""The settings of security, read once: TLS and SASL of each listener, and the authorizer.

Reprs have no secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.broker.settings.security_table import LISTENER_PREFIX, LISTENER_SETTINGS, MECHANISMS
from ottla.model.errors import ConfigError

if TYPE_CHECKING:  # loaded by listeners that need them
    from ottla.security.key_stores import StoreSettings


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of one listener."""

    key_store: StoreSettings
    trust_store: StoreSettings
    client_auth: str
    versions: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    principal_rules: str


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """The rules for tokens."""

    jwks_url: str | None
    jwks_refresh_ms: int
    audiences: tuple[str, ...]
    issuer: str | None
    skew_s: int
    name_claim: str


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """SASL of one listener. `users` are those of PLAIN, with their passwords."""

    mechanisms: tuple[str, ...]
    users: Mapping[str, str] = field(repr=False)
    reauth_ms: Mapping[str, int]
    request_bytes_max: int
    failure_delay_ms: int
    oauth: OAuthSettings


@dataclass(frozen=True, slots=True)
class AuthorizerSettings:
    """The settings of the authorizer."""

    is_on: bool = False
    super_users: frozenset[str] = frozenset()
    allows_if_no_acl: bool = False


class ListenerValues:
    """The settings of one listener: its own before those of all listeners."""

    def __init__(self, properties: Mapping[str, str], listener: str) -> None:
        self._properties = properties
        self._prefix = f"{LISTENER_PREFIX}{listener.lower()}."

    def name(self, name: str, mechanism: str = "") -> str:
        """Return the full name of a setting of this listener."""
        return f"{self._prefix}{mechanism.lower()}.{name}" if mechanism else f"{self._prefix}{name}"

    def value(self, name: str, mechanism: str = "") -> Any:
        """Return a parsed value. Raises ConfigError."""
        row = LISTENER_SETTINGS[name]
        names = [self.name(name), name]
        for full in [self.name(name, mechanism), *names] if mechanism else names:
            if full in self._properties:
                return row.parse(self._properties[full])
        return row.default

    def own(self, name: str, mechanism: str) -> str | None:
        """Return the text that is set for one mechanism of this listener."""
        return self._properties.get(self.name(name, mechanism))


def tls_settings(values: ListenerValues) -> TlsSettings:
    """Return TLS of a listener. Raises ConfigError if there is no key store."""
    from ottla.security.key_stores import StoreSettings

    key_store = StoreSettings(
        values.name("ssl.keystore"),
        values.value("ssl.keystore.type"),
        values.value("ssl.keystore.location") or "",
        values.value("ssl.keystore.password") or "",
        values.value("ssl.key.password") or "",
        values.value("ssl.keystore.key") or "",
        values.value("ssl.keystore.certificate.chain") or "",
    )
    if not key_store.is_set:
        raise ConfigError(
            f"{key_store.prefix}.location: a listener with TLS needs a key store; set this, or "
            "ssl.keystore.location for all"
        )
    trust_store = StoreSettings(
        values.name("ssl.truststore"),
        values.value("ssl.truststore.type"),
        values.value("ssl.truststore.location") or "",
        values.value("ssl.truststore.password") or "",
        certificates=values.value("ssl.truststore.certificates") or "",
    )
    return TlsSettings(
        key_store,
        trust_store,
        values.value("ssl.client.auth"),
        values.value("ssl.enabled.protocols"),
        values.value("ssl.cipher.suites"),
        values.value("ssl.principal.mapping.rules"),
    )


def sasl_settings(values: ListenerValues) -> SaslSettings:
    """Return SASL of a listener. Raises ConfigError for a mechanism that is not served or not complete."""
    mechanisms = tuple(mechanism.strip() for mechanism in values.value("sasl.enabled.mechanisms"))
    for mechanism in mechanisms or ("",):
        if mechanism not in MECHANISMS:
            raise ConfigError(
                f"sasl.enabled.mechanisms={','.join(mechanisms)}: this broker has {', '.join(MECHANISMS)}, "
                f"and not {mechanism or 'none'}; set it or {values.name('sasl.enabled.mechanisms')}"
            )
    return SaslSettings(
        mechanisms,
        _plain_users(values) if "PLAIN" in mechanisms else {},
        {mechanism: values.value("connections.max.reauth.ms", mechanism) for mechanism in mechanisms},
        values.value("sasl.server.max.receive.size"),
        values.value("connection.failed.authentication.delay.ms"),
        OAuthSettings(
            values.value("sasl.oauthbearer.jwks.endpoint.url"),
            values.value("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            tuple(values.value("sasl.oauthbearer.expected.audience") or ()),
            values.value("sasl.oauthbearer.expected.issuer"),
            values.value("sasl.oauthbearer.clock.skew.seconds"),
            values.value("sasl.oauthbearer.sub.claim.name"),
        ),
    )


def _plain_users(values: ListenerValues) -> dict[str, str]:
    """Return the users that the JAAS text of PLAIN has: user_NAME="password"."""
    name = values.name("sasl.jaas.config", "PLAIN")
    text = values.own("sasl.jaas.config", "PLAIN")
    if text is None:
        raise ConfigError(
            f"{name}: PLAIN needs its users: org.apache.kafka.common.security.plain.PlainLoginModule "
            'required user_NAME="PASSWORD";'
        )
    from ottla.security.jaas import parse_jaas

    module = parse_jaas(text, name)
    if module.simple_name != "PlainLoginModule":
        raise ConfigError(f"{name}: the class must be PlainLoginModule, not {module.simple_name}")
    users = {
        option.removeprefix("user_"): value
        for option, value in module.options.items()
        if option.startswith("user_")
    }
    if not users:
        raise ConfigError(f'{name}: it names no user; add user_NAME="PASSWORD"')
    return users


def authorizer_settings(properties: Mapping[str, str]) -> AuthorizerSettings:
    """Return the settings of the authorizer. Raises ConfigError."""
    users = [part.strip() for part in properties.get("super.users", "").split(";")]
    for user in filter(None, users):
        kind, _, name = user.partition(":")
        if not kind or not name:
            raise ConfigError(f"super.users={user}: write User:NAME;User:NAME")
    allows = properties.get("allow.everyone.if.no.acl.found", "false").strip().lower()
    return AuthorizerSettings(
        bool(properties.get("authorizer.class.name", "").strip()),
        frozenset(filter(None, users)),
        allows == "true",
    )

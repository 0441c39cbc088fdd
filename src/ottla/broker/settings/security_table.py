"""The settings about security, under Kafka's names: TLS, SASL and the authorizer.

Those of TLS and SASL may stand behind `listener.name.NAME.`, for one listener, and some of SASL behind
`listener.name.NAME.MECHANISM.`, for one mechanism of it: listener.name.outside.plain.sasl.jaas.config.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.settings.setting import Setting, table
from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, INT, LIST, LONG, PASSWORD, TEXT, TEXTS, Kind

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
CLIENT_AUTH = ("required", "requested", "none")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
AUTHORIZERS = (
    "",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
"""Kafka's authorizers, of all versions: their decisions are the same."""
LISTENER_PREFIX = "listener.name."


def _known_authorizer(name: str) -> str:
    if name in AUTHORIZERS:
        return name
    raise ConfigError(
        f"{name}: this broker runs no Java classes, and would let in whom this one keeps out; it has "
        f"{AUTHORIZERS[1]}"
    )


def _row(name: str, kind: Kind, default: Any, doc: str, **more: Any) -> Setting:
    return Setting(name, kind, default, doc, **more)


_TLS_ROWS = (
    _row("ssl.keystore.type", TEXT, "JKS", "The kind of key store: PEM, PKCS12 or JKS."),
    _row("ssl.keystore.location", TEXT, None, "The file with the broker's key and certificates."),
    _row("ssl.keystore.password", PASSWORD, None, "The password of the key store."),
    _row("ssl.keystore.key", PASSWORD, None, "The broker's key as PEM text, instead of a file."),
    _row(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The broker's certificates as PEM text, instead of a file.",
    ),
    _row("ssl.key.password", PASSWORD, None, "The password of the key."),
    _row("ssl.truststore.type", TEXT, "JKS", "The kind of trust store: PEM, PKCS12 or JKS."),
    _row("ssl.truststore.location", TEXT, None, "The file with the authorities of clients' certificates."),
    _row("ssl.truststore.password", PASSWORD, None, "The password of the trust store."),
    _row("ssl.truststore.certificates", PASSWORD, None, "The authorities as PEM text, instead of a file."),
    _row(
        "ssl.client.auth",
        TEXT,
        "none",
        "Whether clients must show a certificate (required), may (requested) or are not asked (none).",
        choices=CLIENT_AUTH,
    ),
    _row(
        "ssl.enabled.protocols",
        LIST,
        TLS_VERSIONS,
        "The versions of TLS that are spoken.",
        choices=TLS_VERSIONS,
    ),
    _row(
        "ssl.cipher.suites", TEXTS, (), "The cipher suites for TLS 1.2, by Java's names; without: OpenSSL's."
    ),
    _row(
        "ssl.principal.mapping.rules",
        TEXT,
        "DEFAULT",
        "How the name in a client's certificate becomes a user's name.",
    ),
)

_SASL_ROWS = (
    _row(
        "sasl.enabled.mechanisms",
        LIST,
        ("GSSAPI",),
        f"How clients log in: {', '.join(MECHANISMS)}. Kafka's default, GSSAPI, is not served here.",
    ),
    _row("sasl.jaas.config", PASSWORD, None, "The users of PLAIN, or the options of another mechanism."),
    _row(
        "sasl.server.max.receive.size",
        INT,
        524288,
        "The size of a request before its sender is authenticated.",
        minimum=1,
        unit="bytes",
    ),
    _row(
        "connections.max.reauth.ms",
        LONG,
        0,
        "After this time a client must log in again (KIP-368); 0: never.",
        minimum=0,
        unit="ms",
    ),
    _row(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "How long the connection of a client that failed to log in stays open.",
        minimum=0,
        unit="ms",
    ),
    _row(
        "sasl.oauthbearer.jwks.endpoint.url",
        TEXT,
        None,
        "The keys that sign tokens: file: or https:. Without it tokens are not signed: for tests only.",
    ),
    _row(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3600000,
        "How often the keys are read again.",
        minimum=1000,
        unit="ms",
    ),
    _row("sasl.oauthbearer.expected.audience", LIST, None, "The audiences of which a token must have one."),
    _row("sasl.oauthbearer.expected.issuer", TEXT, None, "The issuer that a token must have."),
    _row(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "How far clocks may differ.",
        minimum=0,
        unit="seconds",
    ),
    _row("sasl.oauthbearer.sub.claim.name", TEXT, "sub", "The claim that has the user's name."),
)

_AUTHORIZER_ROWS = (
    _row(
        "authorizer.class.name",
        TEXT,
        "",
        "Kafka's authorizer; its ACLs then say who may do what. Without one everybody may do everything.",
        check=_known_authorizer,
    ),
    _row("super.users", TEXT, "", "Who may do everything, as User:ann;User:bob."),
    _row(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        default=False,
        doc="Whether everybody may use resources that have no ACL.",
    ),
    _row(
        "ottla.allow.open.listeners",
        BOOLEAN,
        default=False,
        doc="Whether a listener without a login may be on an address that other machines reach.",
        target="allows_open_listeners",
    ),
)

SECURITY_ROWS = (*_TLS_ROWS, *_SASL_ROWS, *_AUTHORIZER_ROWS)
LISTENER_SETTINGS = table((*_TLS_ROWS, *_SASL_ROWS))


def listener_setting(name: str) -> Setting | None:
    """Return the row of `listener.name.NAME.…`; None for anything else."""
    if not name.startswith(LISTENER_PREFIX):
        return None
    _, _, rest = name[len(LISTENER_PREFIX) :].partition(".")
    mechanism, _, setting = rest.partition(".")
    if mechanism.upper() in MECHANISMS:
        rest = setting
    return LISTENER_SETTINGS.get(rest)

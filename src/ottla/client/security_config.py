"""TLS and SASL of a client: the settings of Java (stores, JAAS texts) and those of librdkafka (PEM files).

sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="…" password="…";
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Any

from ottla.model.errors import ConfigError
from ottla.model.property_table import PASSWORD, TEXT, UPPER_TEXT, Kind, Property
from ottla.security.jaas import parse_jaas
from ottla.security.key_stores import StoreSettings
from ottla.security.security_protocol import SecurityProtocol


class SaslMechanism(StrEnum):
    """The SASL mechanism."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    GSSAPI = "GSSAPI"
    AWS_MSK_IAM = "AWS_MSK_IAM"

    @property
    def has_password(self) -> bool:
        """Whether a login needs a user's name and password."""
        return self in {SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512}


TokenProvider = Callable[[], str]
"""Returns the token for a login with OAUTHBEARER. Called for every login, in any thread."""


IamSigner = Callable[[str], str | bytes | Mapping[str, str]]
"""Gets the broker's host, and returns the signed request for a login with AWS_MSK_IAM: its fields, or their
JSON.
"""


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """A login with GSSAPI: the service name of the brokers, and our principal; by default that of `kinit`."""

    service: str
    principal: str = ""
    keytab: str = ""


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """An endpoint that returns tokens for a client's credentials (OIDC). The repr has no secrets."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """TLS and SASL. The repr has no passwords."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    ca_location: str = ""
    certificate_location: str = ""
    key_location: str = ""
    key_password: str = field(default="", repr=False)
    checks_host_name: bool = True
    mechanism: SaslMechanism = SaslMechanism.PLAIN
    username: str = ""
    password: str = field(default="", repr=False)
    key_store: StoreSettings | None = None
    trust_store: StoreSettings | None = None
    token_provider: TokenProvider | None = field(default=None, repr=False, compare=False)
    token_endpoint: TokenEndpoint | None = None
    kerberos: KerberosLogin | None = None
    iam_signer: IamSigner | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.protocol.has_sasl:
            self._check_login()
        if self.key_location and not self.certificate_location:
            raise ConfigError(
                "ssl.key.location is the key of a certificate: give ssl.certificate.location too"
            )

    @property
    def login_name(self) -> str:
        """The name for error messages: who logs in."""
        if self.mechanism.has_password:
            return f"user {self.username!r}"
        if self.kerberos is not None and self.kerberos.principal:
            return f"principal {self.kerberos.principal!r}"
        if self.token_endpoint is not None:
            return f"client {self.token_endpoint.client_id!r}"
        return "this client"

    def _check_login(self) -> None:
        mechanism = self.mechanism
        if mechanism is SaslMechanism.OAUTHBEARER and not (self.token_provider or self.token_endpoint):
            raise ConfigError(
                "sasl.mechanism=OAUTHBEARER needs sasl.oauth.token.provider, a function that returns tokens, "
                "or sasl.oauthbearer.token.endpoint.url with the client's id and secret"
            )
        if mechanism is SaslMechanism.GSSAPI and self.kerberos is None:
            raise ConfigError(
                "sasl.mechanism=GSSAPI needs sasl.kerberos.service.name: the brokers' user, often kafka"
            )
        if mechanism is SaslMechanism.AWS_MSK_IAM and self.iam_signer is None:
            raise ConfigError(
                "sasl.mechanism=AWS_MSK_IAM needs sasl.aws.msk.iam.signer, a function that gets the broker's "
                "host and returns a signed request; or take OAUTHBEARER with the tokens of AWS's signer"
            )
        if mechanism.has_password and not (self.username and self.password):
            raise ConfigError(
                f"security.protocol={self.protocol} needs sasl.username and sasl.password, or "
                "sasl.jaas.config"
            )


@dataclass(frozen=True, slots=True)
class NamedFunction:
    """A function by its name, MODULE:FUNCTION, which is imported when it is called."""

    name: str

    def __call__(self, *arguments: object) -> Any:
        """Call the function. Raises what it raises, or ImportError."""
        module, _, function = self.name.partition(":")
        named = getattr(import_module(module), function, None)
        if named is None:
            raise ImportError(f"{module} has no function {function}")
        return named(*arguments)


def _callable(value: object) -> Callable[..., Any]:
    if callable(value):
        return value
    if isinstance(value, str) and _FUNCTION_NAME.fullmatch(value):
        return NamedFunction(value)
    raise ValueError


def _login_handler(name: str) -> str:
    if name and name not in TOKEN_HANDLERS:
        raise ConfigError(
            "Java classes cannot run here; give sasl.oauth.token.provider, or "
            "sasl.oauthbearer.token.endpoint.url"
        )
    return name


TOKEN_HANDLERS = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{package}OAuthBearerLoginCallbackHandler"
    for package in ("", "secured.")
)
"""Kafka's own classes that get tokens from an endpoint, which is built in here."""
_FUNCTION_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
CALLABLE = Kind("class", _callable, "a function, or its name as MODULE:FUNCTION")

SECURITY_PROPERTIES: tuple[Property, ...] = (
    Property(
        "security.protocol",
        UPPER_TEXT,
        SecurityProtocol.PLAINTEXT,
        "The protocol of the brokers' listener.",
        choices=tuple(SecurityProtocol),
        check=SecurityProtocol,
    ),
    Property("ssl.ca.location", TEXT, "", "Certificates that we trust (PEM); those of the system if unset."),
    Property("ssl.certificate.location", TEXT, "", "Our own certificate (PEM), if brokers require it."),
    Property("ssl.key.location", TEXT, "", "Its key (PEM), if it is not in the same file."),
    Property("ssl.key.password", PASSWORD, "", "The password of the key."),
    Property("ssl.truststore.type", UPPER_TEXT, "JKS", "Java's form of ssl.ca.location: PEM, PKCS12 or JKS."),
    Property("ssl.truststore.location", TEXT, "", "The store with the certificates that we trust."),
    Property("ssl.truststore.password", PASSWORD, "", "The password of that store."),
    Property("ssl.truststore.certificates", PASSWORD, "", "Certificates that we trust, as PEM text."),
    Property(
        "ssl.keystore.type", UPPER_TEXT, "JKS", "Java's form of ssl.certificate.location: PEM, PKCS12 or JKS."
    ),
    Property("ssl.keystore.location", TEXT, "", "The store with our own key and certificate."),
    Property("ssl.keystore.password", PASSWORD, "", "The password of that store."),
    Property("ssl.keystore.key", PASSWORD, "", "Our own key, as PEM text."),
    Property("ssl.keystore.certificate.chain", PASSWORD, "", "Our own certificate, as PEM text."),
    Property(
        "ssl.endpoint.identification.algorithm",
        TEXT,
        "https",
        "https: the certificate must name the host that we connect to. Empty or none: it need not.",
        field="ssl_endpoint_identification",
        choices=("https", "none", ""),
    ),
    Property(
        "sasl.mechanism",
        UPPER_TEXT,
        SaslMechanism.PLAIN,
        "The SASL mechanism.",
        synonyms=("sasl.mechanisms",),
        choices=tuple(SaslMechanism),
        check=SaslMechanism,
    ),
    Property("sasl.username", TEXT, "", "The user.", synonyms=("sasl.plain.username",)),
    Property("sasl.password", PASSWORD, "", "The user's password.", synonyms=("sasl.plain.password",)),
    Property(
        "sasl.jaas.config",
        PASSWORD,
        "",
        "Java's form of the user and the password, for PLAIN, SCRAM and OAUTHBEARER.",
    ),
    Property(
        "sasl.oauth.token.provider",
        CALLABLE,
        None,
        "A function that returns a token for OAUTHBEARER; it is called for every login.",
    ),
    Property(
        "sasl.oauthbearer.token.endpoint.url",
        TEXT,
        "",
        "Where tokens are got for the client's id and secret (OIDC, client credentials): https or http.",
    ),
    Property(
        "sasl.oauthbearer.client.credentials.client.id",
        TEXT,
        "",
        "The client's id.",
        synonyms=("sasl.oauthbearer.client.id",),
    ),
    Property(
        "sasl.oauthbearer.client.credentials.client.secret",
        PASSWORD,
        "",
        "The client's secret.",
        synonyms=("sasl.oauthbearer.client.secret",),
    ),
    Property("sasl.oauthbearer.scope", TEXT, "", "The scope of the token."),
    Property(
        "sasl.oauthbearer.method",
        TEXT,
        "",
        "As in librdkafka's settings. It says nothing new: with an endpoint, tokens are got there.",
        choices=("", "default", "oidc", "OIDC"),
    ),
    Property(
        "sasl.login.callback.handler.class",
        TEXT,
        "",
        "As in Java's settings. Kafka's class that gets tokens from an endpoint is built in; no other is.",
        check=_login_handler,
    ),
    Property("sasl.kerberos.service.name", TEXT, "", "The brokers' Kerberos user, for GSSAPI: often kafka."),
    Property("sasl.kerberos.principal", TEXT, "", "Our own Kerberos user; by default that of `kinit`."),
    Property("sasl.kerberos.keytab", TEXT, "", "A file with its key, so that no `kinit` is needed."),
    Property(
        "sasl.aws.msk.iam.signer",
        CALLABLE,
        None,
        "A function for AWS_MSK_IAM: gets the broker's host, returns the signed request.",
    ),
)

_LOGIN_MODULES = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "Krb5LoginModule": ("GSSAPI",),
    "IAMLoginModule": ("AWS_MSK_IAM",),
}


def security_config(values: Mapping[str, Any]) -> SecurityConfig:
    """Return the SecurityConfig of parsed settings. Raises ConfigError."""
    options = _jaas_options(values["sasl_jaas_config"], values["sasl_mechanism"])
    return SecurityConfig(
        protocol=values["security_protocol"],
        ca_location=values["ssl_ca_location"],
        certificate_location=values["ssl_certificate_location"],
        key_location=values["ssl_key_location"],
        key_password=values["ssl_key_password"],
        checks_host_name=values["ssl_endpoint_identification"] == "https",
        mechanism=values["sasl_mechanism"],
        username=values["sasl_username"] or options.get("username", ""),
        password=values["sasl_password"] or options.get("password", ""),
        key_store=_store(
            "ssl.keystore",
            values,
            key=values["ssl_keystore_key"],
            certificates=values["ssl_keystore_certificate_chain"],
            key_password=values["ssl_key_password"],
        ),
        trust_store=_store("ssl.truststore", values, certificates=values["ssl_truststore_certificates"]),
        token_provider=values["sasl_oauth_token_provider"],
        token_endpoint=_endpoint(values, options),
        kerberos=_kerberos(values, options),
        iam_signer=values["sasl_aws_msk_iam_signer"],
    )


def _kerberos(values: Mapping[str, Any], options: Mapping[str, str]) -> KerberosLogin | None:
    service = values["sasl_kerberos_service_name"] or options.get("serviceName", "")
    principal = values["sasl_kerberos_principal"] or options.get("principal", "")
    keytab = values["sasl_kerberos_keytab"] or options.get("keyTab", "")
    return KerberosLogin(service, principal, keytab) if service else None


def _store(prefix: str, values: Mapping[str, Any], **more: str) -> StoreSettings | None:
    field_prefix = prefix.replace(".", "_")
    store = StoreSettings(
        prefix,
        values[f"{field_prefix}_type"],
        values[f"{field_prefix}_location"],
        values[f"{field_prefix}_password"],
        **more,
    )
    return store if store.is_set else None


def _jaas_options(text: str, mechanism: SaslMechanism) -> Mapping[str, str]:
    if not text:
        return {}
    module = parse_jaas(text)
    allowed = _LOGIN_MODULES.get(module.simple_name)
    if allowed is None:
        raise ConfigError(
            f"sasl.jaas.config: {module.simple_name} is not known here; known are {', '.join(_LOGIN_MODULES)}"
        )
    if mechanism.value not in allowed:
        raise ConfigError(f"sasl.jaas.config: {module.simple_name} is not for sasl.mechanism={mechanism}")
    return module.options


def _endpoint(values: Mapping[str, Any], options: Mapping[str, str]) -> TokenEndpoint | None:
    url = values["sasl_oauthbearer_token_endpoint_url"]
    if not url:
        return None
    if not url.startswith(("https://", "http://")):
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url={url}: it must begin with https: or http:")
    client_id = values["sasl_oauthbearer_client_credentials_client_id"] or options.get("clientId", "")
    secret = values["sasl_oauthbearer_client_credentials_client_secret"] or options.get("clientSecret", "")
    if not client_id or not secret:
        raise ConfigError("sasl.oauthbearer.token.endpoint.url needs the client's id and secret")
    return TokenEndpoint(url, client_id, secret, values["sasl_oauthbearer_scope"] or options.get("scope", ""))

"""The settings of connections to brokers, parsed once.

    ClientConfig.from_properties({"bootstrap.servers": "kafka-1:9092,kafka-2:9092", "client.id": "billing"})

A consumer or producer has its own table, which starts with CLIENT_PROPERTIES. It reads its settings with
`parse_properties`, and makes its ClientConfig from the values with `from_values`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from ottla.model.address import Address, parse_addresses
from ottla.model.errors import ConfigError
from ottla.model.property_table import (
    BOOLEAN,
    INT,
    PASSWORD,
    TEXT,
    TEXTS,
    UPPER_TEXT,
    Property,
    parse_properties,
)
from ottla.wire.versions import pinned


class SecurityProtocol(StrEnum):
    """The protocol of a listener."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def has_sasl(self) -> bool:
        """Whether a user name and a password are needed."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class SaslMechanism(StrEnum):
    """The SASL mechanism."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


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

    def __post_init__(self) -> None:
        if self.protocol.has_sasl and not (self.username and self.password):
            raise ConfigError(f"security.protocol={self.protocol} needs sasl.username and sasl.password")
        if self.key_location and not self.certificate_location:
            raise ConfigError(
                "ssl.key.location is the key of a certificate: give ssl.certificate.location too"
            )


def _pin(version: str) -> str:
    if version:
        pinned(version)  # raises for what cannot be pinned
    return version


CLIENT_PROPERTIES: tuple[Property, ...] = (
    Property(
        "bootstrap.servers",
        TEXTS,
        (),
        "HOST:PORT of some brokers, separated by commas; the other brokers are found through them.",
        field="bootstrap",
        synonyms=("metadata.broker.list", "broker.list"),
        check=lambda texts: parse_addresses(",".join(texts)),
    ),
    Property("client.id", TEXT, "ottla", "What brokers call this client in their logs, metrics and quotas."),
    Property(
        "request.timeout.ms",
        INT,
        30_000,
        "How long to wait for a response.",
        synonyms=("socket.timeout.ms",),
        minimum=1,
    ),
    Property(
        "socket.connection.setup.timeout.ms",
        INT,
        10_000,
        "How long opening a connection may take, including TLS and SASL.",
        field="socket_connect_timeout_ms",
        minimum=1,
    ),
    Property(
        "api.version.request.timeout.ms",
        INT,
        5_000,
        "How long a broker may take to answer ApiVersions. 0.9 never does: set broker.version for it.",
        field="discovery_timeout_ms",
        minimum=1,
    ),
    Property(
        "metadata.max.age.ms", INT, 300_000, "How old metadata may be before they are refreshed.", minimum=1
    ),
    Property("retry.backoff.ms", INT, 100, "The first pause before another try; it doubles.", minimum=0),
    Property("retry.backoff.max.ms", INT, 1_000, "The longest pause before another try.", minimum=0),
    Property(
        "reconnect.backoff.ms", INT, 50, "The first pause before another connection; it doubles.", minimum=0
    ),
    Property(
        "reconnect.backoff.max.ms", INT, 1_000, "The longest pause before another connection.", minimum=0
    ),
    Property(
        "receive.buffer.bytes",
        INT,
        -1,
        "SO_RCVBUF; -1: the system chooses, and grows it when needed.",
        field="socket_receive_buffer_bytes",
        synonyms=("socket.receive.buffer.bytes",),
        minimum=-1,
    ),
    Property(
        "send.buffer.bytes",
        INT,
        -1,
        "SO_SNDBUF; -1: the system chooses, and grows it when needed.",
        field="socket_send_buffer_bytes",
        synonyms=("socket.send.buffer.bytes",),
        minimum=-1,
    ),
    Property(
        "allow.auto.create.topics",
        BOOLEAN,
        default=True,
        doc="Whether asking for a topic may make it, if the broker allows that. If not, brokers before 0.11 "
        "are asked for all topics: they make what they are asked for by name.",
    ),
    Property(
        "broker.version",
        TEXT,
        "",
        "For brokers that do not answer ApiVersions: 0.8.0, 0.8.1, 0.8.2 or 0.9. Unset for 0.10 and later.",
        synonyms=("broker.version.fallback",),
        check=_pin,
    ),
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
)

_PEM = "certificates are PEM files here: ssl.ca.location, ssl.certificate.location, ssl.key.location"
FOREIGN_PROPERTIES: Mapping[str, str] = {
    "sasl.jaas.config": "give sasl.username and sasl.password",
    "ssl.truststore.location": _PEM,
    "ssl.truststore.password": _PEM,
    "ssl.keystore.location": _PEM,
    "ssl.keystore.password": _PEM,
    "ssl.cafile": _PEM,
    "api.version": "for a broker before 0.10 set broker.version; later brokers are asked for their versions",
}
"""Settings of other clients, and what to use instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Checked settings; times in milliseconds. `broker_version` "": brokers are asked for their versions."""

    bootstrap: tuple[Address, ...]
    client_id: str = "ottla"
    request_timeout_ms: int = 30_000
    socket_connect_timeout_ms: int = 10_000
    discovery_timeout_ms: int = 5_000
    metadata_max_age_ms: int = 300_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    socket_receive_buffer_bytes: int = -1
    socket_send_buffer_bytes: int = -1
    allow_auto_create_topics: bool = True
    broker_version: str = ""
    security: SecurityConfig = SecurityConfig()

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """From Kafka's names, dotted or snake_case. Raises ConfigError."""
        return cls.from_values(parse_properties(CLIENT_PROPERTIES, properties, foreign=FOREIGN_PROPERTIES))

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """From the values that `parse_properties` has read by a table that starts with CLIENT_PROPERTIES."""
        if not values["bootstrap"]:
            raise ConfigError("bootstrap.servers is not set: give HOST:PORT of one or more brokers")
        own = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**own, security=_security(values))


def _security(values: Mapping[str, Any]) -> SecurityConfig:
    return SecurityConfig(
        protocol=values["security_protocol"],
        ca_location=values["ssl_ca_location"],
        certificate_location=values["ssl_certificate_location"],
        key_location=values["ssl_key_location"],
        key_password=values["ssl_key_password"],
        checks_host_name=values["ssl_endpoint_identification"] == "https",
        mechanism=values["sasl_mechanism"],
        username=values["sasl_username"],
        password=values["sasl_password"],
    )

"""The settings of connections to brokers, parsed once.

    ClientConfig.from_properties({"bootstrap.servers": "kafka-1:9092,kafka-2:9092", "client.id": "billing"})

A consumer or producer has its own table, which starts with CLIENT_PROPERTIES. It reads its settings with
`parse_properties`, and makes its ClientConfig from the values with `from_values`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ottla.client.security_config import (
    SECURITY_PROPERTIES,
    SaslMechanism,
    SecurityConfig,
    security_config,
)
from ottla.model.address import Address, parse_addresses
from ottla.model.errors import ConfigError
from ottla.model.property_table import (
    BOOLEAN,
    INT,
    TEXT,
    TEXTS,
    Property,
    parse_properties,
)
from ottla.security.security_protocol import SecurityProtocol
from ottla.wire.versions import pinned

__all__ = ["CLIENT_PROPERTIES", "ClientConfig", "SaslMechanism", "SecurityConfig", "SecurityProtocol"]

USE_ALL_IPS = "use_all_dns_ips"
CANONICAL_NAMES = "resolve_canonical_bootstrap_servers_only"


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
        "client.dns.lookup",
        TEXT,
        USE_ALL_IPS,
        "All addresses of a host are tried, one after the other. resolve_canonical_bootstrap_servers_only: "
        "each address of a bootstrap server is called by its canonical name, as Kerberos and certificates of "
        "hosts behind an alias need.",
        field="dns_lookup",
        choices=(USE_ALL_IPS, CANONICAL_NAMES),
    ),
    *SECURITY_PROPERTIES,
)

FOREIGN_PROPERTIES: Mapping[str, str] = {
    "ssl.cafile": "give ssl.ca.location",
    "sasl.client.callback.handler.class": "Java classes cannot run here; give sasl.oauth.token.provider",
    "metrics.recording.level": "clients here have `metrics` and no levels",
    "api.version": "for a broker before 0.10 set broker.version; later brokers are asked for their versions",
}
"""Settings of other clients, and what to use instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Checked settings; times in milliseconds.

    If `broker_version` is "", brokers are asked for their versions.
    """

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
    dns_lookup: str = USE_ALL_IPS
    security: SecurityConfig = field(default_factory=SecurityConfig)

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """Parse Kafka's names, dotted or snake_case. Raises ConfigError."""
        return cls.from_values(parse_properties(CLIENT_PROPERTIES, properties, foreign=FOREIGN_PROPERTIES))

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Make it from the values that `parse_properties` returned for a table that starts with
        CLIENT_PROPERTIES.
        """
        if not values["bootstrap"]:
            raise ConfigError("bootstrap.servers is not set: give HOST:PORT of one or more brokers")
        own = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**own, security=security_config(values))

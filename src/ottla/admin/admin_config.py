"""Settings of Admin: those of a client, ZooKeeper's address, time limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from ottla.client.client_config import CLIENT_PROPERTIES, FOREIGN_PROPERTIES, ClientConfig
from ottla.model.address import Address
from ottla.model.errors import ConfigError
from ottla.model.property_table import INT, TEXT, Property, parse_properties
from ottla.zookeeper.login import ZOOKEEPER_LOGIN_PROPERTIES, ZooKeeperLogin, zookeeper_login
from ottla.zookeeper.paths import parse_connect


def _connect(text: str) -> str:
    if text:
        parse_connect(text)  # raises for what is no connect string
    return text


ADMIN_PROPERTIES: tuple[Property, ...] = (
    *CLIENT_PROPERTIES,
    Property(
        "zookeeper.connect",
        TEXT,
        "",
        "HOST:PORT,HOST:PORT/chroot of the brokers' ZooKeeper: for classic groups, and for brokers without "
        "some calls.",
        check=_connect,
    ),
    Property(
        "zookeeper.session.timeout.ms",
        INT,
        6_000,
        "How long ZooKeeper keeps a session without a sign of life.",
        minimum=1,
    ),
    Property("zookeeper.connection.timeout.ms", INT, 6_000, "How long to wait for ZooKeeper.", minimum=1),
    *ZOOKEEPER_LOGIN_PROPERTIES,
    Property(
        "default.api.timeout.ms",
        INT,
        60_000,
        "How long a failing call is retried. A call about several things may take that long for each.",
        minimum=1,
    ),
)

_FROM_ZOOKEEPER = (Address("from-zookeeper", 1),)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig:
    """Checked settings. `client.bootstrap` is empty if the brokers are looked up in ZooKeeper."""

    client: ClientConfig
    zookeeper_connect: str
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    zookeeper_login: ZooKeeperLogin
    api_timeout_ms: int

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """Parse settings with Kafka's names, dotted or snake_case. Raises ConfigError."""
        values = parse_properties(ADMIN_PROPERTIES, properties, foreign=FOREIGN_PROPERTIES)
        if not values["bootstrap"] and not values["zookeeper_connect"]:
            raise ConfigError(
                "neither bootstrap.servers nor zookeeper.connect is set: give HOST:PORT of one or more "
                "brokers, of their ZooKeeper, or both"
            )
        client = ClientConfig.from_values(values | {"bootstrap": values["bootstrap"] or _FROM_ZOOKEEPER})
        return cls(
            # A request about a topic must never create it.
            client=replace(client, bootstrap=values["bootstrap"], allow_auto_create_topics=False),
            zookeeper_connect=values["zookeeper_connect"],
            zookeeper_session_timeout_ms=values["zookeeper_session_timeout_ms"],
            zookeeper_connection_timeout_ms=values["zookeeper_connection_timeout_ms"],
            zookeeper_login=zookeeper_login(values),
            api_timeout_ms=values["default_api_timeout_ms"],
        )

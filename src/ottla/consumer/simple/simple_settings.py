"""The arguments of SimpleConsumer and the finders as a ClientConfig, and checks of single arguments.

Kafka's own arguments (host, port, so_timeout, …) are rows of the property table like all other settings, so a
setting that is given under two names is an error that names both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv6Address

from ottla.client.client_config import CLIENT_PROPERTIES, FOREIGN_PROPERTIES, ClientConfig
from ottla.model.address import PORT_MAX, Address, parse_address, parse_addresses
from ottla.model.errors import ConfigError
from ottla.model.property_table import INT, TEXT, TEXTS, Property, parse_properties
from ottla.model.topic_partition import TopicAndPartition

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


def _brokers(name: str) -> Property:
    """Return the row of bootstrap.servers under another name."""
    return Property(
        name,
        TEXTS,
        (),
        "HOST:PORT of brokers to ask.",
        field="bootstrap",
        synonyms=("bootstrap.servers", "metadata.broker.list", "broker.list"),
        check=lambda texts: parse_addresses(",".join(texts)),
    )


_OWN = (
    Property(
        "so_timeout",
        INT,
        30_000,
        "How long to wait for an answer, in milliseconds.",
        field="request_timeout_ms",
        synonyms=("socket.timeout.ms",),
        minimum=1,
    ),
    Property(
        "buffer_size",
        INT,
        64 * 1024,
        "SO_RCVBUF; -1 leaves it to the system.",
        field="socket_receive_buffer_bytes",
        synonyms=("receive.buffer.bytes", "socket.receive.buffer.bytes"),
        minimum=-1,
    ),
    Property("client_id", TEXT, "", "What brokers call this client in their logs, metrics and quotas."),
)


def _table(brokers: str) -> tuple[Property, ...]:
    own = (_brokers(brokers), *_OWN)
    rows = {row.key: row for row in CLIENT_PROPERTIES} | {row.key: row for row in own}
    # Looking for a topic must not create it. Brokers before 0.11 cannot be asked that.
    rows["allow_auto_create_topics"] = replace(rows["allow_auto_create_topics"], default=False)
    return tuple(rows.values())


HOST_AND_PORT, SEED_BROKERS = "host and port", "seed_brokers"
CONSUMER_TABLE, FINDER_TABLE = _table(HOST_AND_PORT), _table(SEED_BROKERS)


def broker_address(host: object, port: object) -> Address:
    """Return the address of a broker. Raises ConfigError."""
    name = checked_text("host", host)
    if ":" in name and not _is_ipv6(name):
        raise ConfigError(f"host is {name!r}: give the host alone, and the port as a number of its own")
    number = checked_number("port", port, 1, PORT_MAX, f"give the broker's port, 1 to {PORT_MAX}")
    return parse_address(f"{Address(name, number)}")


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def consumer_config(address: Address, properties: Mapping[str, object]) -> ClientConfig:
    """Return the settings of a SimpleConsumer. Raises ConfigError."""
    return _config(CONSUMER_TABLE, {HOST_AND_PORT: f"{address}", **properties})


def finder_config(seed_brokers: str | Iterable[str], properties: Mapping[str, object]) -> ClientConfig:
    """Return the settings of `find_leader` and the like. Raises ConfigError."""
    return _config(FINDER_TABLE, {SEED_BROKERS: seed_brokers, **properties})


def _config(table: tuple[Property, ...], given: Mapping[str, object]) -> ClientConfig:
    config = ClientConfig.from_values(parse_properties(table, given, foreign=FOREIGN_PROPERTIES))
    # Kafka's so_timeout bounds connecting as well, and so version discovery too.
    return replace(
        config,
        socket_connect_timeout_ms=min(config.socket_connect_timeout_ms, config.request_timeout_ms),
        discovery_timeout_ms=min(config.discovery_timeout_ms, config.request_timeout_ms),
    )


def checked_number(name: str, value: object, least: int, most: int, remedy: str) -> int:
    """Return `value` if it is an integer from `least` to `most`. Raises ConfigError with `remedy`."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(f"{name} is {value!r}: {remedy}")
    return value


def checked_text(name: str, value: object) -> str:
    """Return `value` if it is a string that is not empty. Raises ConfigError."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} is {value!r}: give a string that is not empty")
    return value


def checked_partition(topic: object, partition: object) -> TopicAndPartition:
    """Return the partition if both parts are valid. Raises ConfigError."""
    name = checked_text("topic", topic)
    return TopicAndPartition(
        name, checked_number("partition", partition, 0, INT_MAX, f"partitions of {name!r} are 0, 1, 2, …")
    )

"""Which cluster a command talks to: from flags, a file or a profile.

Flags win over --set, --set over --config, --config over the profile. Without any address it is this machine.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.cli.profile import DEFAULT, chosen_profile
from ottla.model.errors import ConfigError

if TYPE_CHECKING:
    from ottla.admin import Admin

HERE = "127.0.0.1:9092"


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every command has."""
    group = parser.add_argument_group("connection")
    group.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT,…", help=f"brokers (default {HERE})")
    group.add_argument(
        "--zookeeper", metavar="HOST:PORT,…", help="ZooKeeper, for classic groups and old brokers"
    )
    group.add_argument("--config", metavar="FILE", help="client settings, a Java properties file")
    group.add_argument("--profile", metavar="NAME", help="client settings of a profile")
    group.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a client setting, by Kafka's name"
    )


def add_schemas_option(parser: argparse.ArgumentParser) -> None:
    """Add --schemas, for commands that decode values."""
    parser.add_argument(
        "--schemas",
        default=os.environ.get("OTTLA_SCHEMAS") or None,
        metavar="URL|DIRECTORY",
        help="decode Avro and Protobuf: a schema registry, or a directory of schemas ($OTTLA_SCHEMAS)",
    )


def properties_of(options: argparse.Namespace) -> dict[str, object]:
    """Settings for our clients."""
    properties: dict[str, object] = {**chosen_profile(options.profile, default=DEFAULT)}
    if options.config:
        from ottla.cli.kafka.settings import file_properties

        properties |= file_properties(options.config)
    properties |= named_values("--set", options.set)
    if options.bootstrap_server:
        properties["bootstrap.servers"] = options.bootstrap_server
    if options.zookeeper:
        properties["zookeeper.connect"] = options.zookeeper
    if not {"bootstrap.servers", "zookeeper.connect"} & properties.keys():
        properties["bootstrap.servers"] = HERE
    return properties


def named_values(flag: str, items: Iterable[str]) -> dict[str, str]:
    """The values of a flag that is given as NAME=VALUE, once or several times. Raises ConfigError."""
    values = {}
    for item in items:
        name, separator, value = item.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"{flag} {item}: NAME=VALUE is wanted")
        values[name.strip()] = value.strip()
    return values


def without(properties: dict[str, object], *names: str) -> dict[str, object]:
    """The settings without some names, for a client that does not know them."""
    return {name: value for name, value in properties.items() if name not in names}


def opened_admin(properties: Mapping[str, object]) -> Admin:
    """Return an administrator of the cluster that a client with these properties reads."""
    from ottla.admin import Admin
    from ottla.client.client_config import CLIENT_PROPERTIES
    from ottla.model.property_table import snake

    known = {name for row in CLIENT_PROPERTIES for name in row.names}
    return Admin({name: value for name, value in properties.items() if snake(name) in known})

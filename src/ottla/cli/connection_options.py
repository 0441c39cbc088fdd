"""How commands for people are told whom to talk to: flags, a file, a profile.

A flag goes before --set, --set before --config, that before the profile. Without any address it is this
machine.
"""

from __future__ import annotations

import argparse

from ottla.cli.profile import DEFAULT, chosen_profile
from ottla.model.errors import ConfigError

HERE = "127.0.0.1:9092"


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """The options that every command has."""
    group = parser.add_argument_group("whom to talk to")
    group.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT,…", help=f"brokers (default {HERE})")
    group.add_argument(
        "--zookeeper", metavar="HOST:PORT,…", help="ZooKeeper, for classic groups and old brokers"
    )
    group.add_argument("--config", metavar="FILE", help="client settings, a Java properties file")
    group.add_argument("--profile", metavar="NAME", help="client settings of a profile")
    group.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="one client setting, by Kafka's name"
    )


def properties_of(options: argparse.Namespace) -> dict[str, object]:
    """Settings for our clients."""
    found: dict[str, object] = {**chosen_profile(options.profile, default=DEFAULT)}
    if options.config:
        from ottla.cli.kafka.settings import file_properties

        found |= file_properties(options.config)
    for item in options.set:
        name, separator, value = item.partition("=")
        if not separator:
            raise ConfigError(f"--set {item}: NAME=VALUE is wanted")
        found[name.strip()] = value.strip()
    if options.bootstrap_server:
        found["bootstrap.servers"] = options.bootstrap_server
    if options.zookeeper:
        found["zookeeper.connect"] = options.zookeeper
    if not {"bootstrap.servers", "zookeeper.connect"} & found.keys():
        found["bootstrap.servers"] = HERE
    return found


def without(properties: dict[str, object], *names: str) -> dict[str, object]:
    """The same for a client that does not know some names."""
    return {name: value for name, value in properties.items() if name not in names}

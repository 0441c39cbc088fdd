"""Properties for our clients from the arguments of Kafka's tools: addresses, files, key=value.

They win over the profile that OTTLA_PROFILE names. Its addresses are not used: Kafka's tools get theirs as
flags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.tool import ToolRefused
from ottla.cli.profile import chosen_profile
from ottla.client.client_config import CLIENT_PROPERTIES
from ottla.model.java_properties import read_properties
from ottla.model.property_table import snake

_ADDRESS = re.compile(r"\[?[0-9A-Za-z\-%._:]*\]?:[0-9]+")
_FOR_JAVA = re.compile(
    r".*(serializer|deserializer|interceptor\.classes|metric\.reporters|partition\.assignment\.strategy"
    r"|\.callback\.handler\.class)|metrics\..*|enable\.metrics\.push"
)
_TOLD_BY_FLAGS = {"bootstrap_servers", "client_id"}


def check_addresses(addresses: str) -> str:
    """Raise WrongFlags with Kafka's message unless this is HOST:PORT,HOST:PORT."""
    if not all(_ADDRESS.fullmatch(part.strip()) for part in addresses.split(",")):
        raise WrongFlags("Please provide valid host:port like host1:9091,host2:9092\n")
    return addresses


def file_properties(path: str | None) -> dict[str, str]:
    """Read a properties file for Java's clients, without settings that name Java classes or their metrics."""
    if not path:
        return {}
    return {name: value for name, value in read_properties(path).items() if not _FOR_JAVA.fullmatch(name)}


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """Parse key=value."""
    properties = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise ToolRefused(f"Invalid command line properties: {' '.join(texts)}")
        properties[name] = value
    return properties


def profile_properties() -> dict[str, str]:
    """The settings of the profile in OTTLA_PROFILE that every client understands."""
    known = {name for row in CLIENT_PROPERTIES for name in row.names} - _TOLD_BY_FLAGS
    return {name: value for name, value in chosen_profile().items() if snake(name) in known}


def admin_properties(options: Options, client_id: str = "") -> dict[str, object]:
    """Settings for an Admin: --bootstrap-server, --broker-list or --zookeeper, and --command-config."""
    properties: dict[str, object] = {**profile_properties()}
    if "command-config" in options.known:
        properties |= file_properties(options.value("command-config"))
    for flag, name in (
        ("broker-list", "bootstrap.servers"),
        ("bootstrap-server", "bootstrap.servers"),
        ("zookeeper", "zookeeper.connect"),
    ):
        if flag in options.known and options.has(flag):
            properties[name] = options.text(flag)
    if client_id:
        properties["client.id"] = client_id
    return properties

"""Properties for our clients, from what Kafka's tools are given: addresses, files, key=value.

Under all of these are the settings of the profile that OTTLA_PROFILE names, but for its addresses: Kafka's
tools are told whom to talk to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ottla.broker.settings.java_properties import read_properties
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.tool import Refused
from ottla.cli.profile import chosen_profile
from ottla.client.config import CLIENT_PROPERTIES
from ottla.client.properties import snake

_ADDRESS = re.compile(r"\[?[0-9A-Za-z\-%._:]*\]?:[0-9]+")
_FOR_JAVA = re.compile(
    r".*(serializer|deserializer|interceptor\.classes|metric\.reporters|partition\.assignment\.strategy"
    r"|\.callback\.handler\.class)|metrics\..*|enable\.metrics\.push"
)
_TOLD_BY_FLAGS = {"bootstrap_servers", "client_id"}


def check_addresses(addresses: str) -> str:
    """HOST:PORT,HOST:PORT, or Kafka's words about what is not."""
    if not all(_ADDRESS.fullmatch(one.strip()) for one in addresses.split(",")):
        raise WrongFlags("Please provide valid host:port like host1:9091,host2:9092\n")
    return addresses


def file_properties(path: str | None) -> dict[str, str]:
    """A properties file for Java's clients; what names Java classes, and their metrics, is left out."""
    if not path:
        return {}
    return {name: value for name, value in read_properties(path).items() if not _FOR_JAVA.fullmatch(name)}


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """Of key=value."""
    found = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise Refused(f"Invalid command line properties: {' '.join(texts)}")
        found[name] = value
    return found


def profile_properties() -> dict[str, str]:
    """Of the profile in the environment, what every client understands."""
    known = {name for row in CLIENT_PROPERTIES for name in row.names} - _TOLD_BY_FLAGS
    return {name: value for name, value in chosen_profile().items() if snake(name) in known}


def admin_properties(options: Options, client_id: str = "") -> dict[str, object]:
    """For an Admin: --bootstrap-server or --broker-list or --zookeeper, and --command-config."""
    found: dict[str, object] = {**profile_properties()}
    if "command-config" in options.known:
        found |= file_properties(options.value("command-config"))
    for flag, name in (
        ("broker-list", "bootstrap.servers"),
        ("bootstrap-server", "bootstrap.servers"),
        ("zookeeper", "zookeeper.connect"),
    ):
        if flag in options.known and options.has(flag):
            found[name] = options.text(flag)
    if client_id:
        found["client.id"] = client_id
    return found

"""The settings of a mirror's consumer and producer: what the user gives, over what a mirror wants.

Defaults can be overridden. What is fixed cannot: a consumer that commits by itself would lose records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ottla.client.config import CLIENT_PROPERTIES
from ottla.client.properties import Property, snake
from ottla.fetching import FETCH_PROPERTIES
from ottla.model.errors import ConfigError
from ottla.producer.config import PRODUCER_PROPERTIES

log = logging.getLogger(__name__)

Properties = Mapping[str, object]

INT_MAX = 2**31 - 1
WHOLE_BYTES_MIN = 128 << 10
"""A Produce request carries one batch of a partition. Below this it costs more than decoding the batch and
joining its records with others, which was measured."""
_AUTO_COMMIT = ("auto_commit_enable", "enable_auto_commit")
_CONSUMER_DEFAULTS: Properties = {
    "auto_offset_reset": "smallest",
    "metadata_max_age_ms": 10_000,  # new partitions are not to wait for five minutes
    # Who reads on and on pays by the answer: 2 to 4 times faster than 1 MB. The next ones are to have room.
    "fetch_message_max_bytes": 4 << 20,
    "queued_max_message_chunks": 4,
    "queued_max_bytes": 128 << 20,
}
_PRODUCER_DEFAULTS: Properties = {
    "delivery_timeout_ms": INT_MAX,
    "max_block_ms": INT_MAX,
    "metadata_max_age_ms": 10_000,
}
_ADMIN_NAMES = ("bootstrap_servers", "zookeeper_connect", "broker_version")
_ADMIN_PREFIXES = ("security_", "ssl_", "sasl_")


def normalised(properties: Properties) -> dict[str, object]:
    """The same with underscores, so that a name is there once."""
    return {snake(name): value for name, value in properties.items()}


def _over(defaults: Properties, given: Properties, table: Iterable[Property]) -> dict[str, object]:
    """What is given over the defaults, whichever of a property's names it is given by."""
    properties = normalised(given)
    set_by_user = {name for row in table if properties.keys() & set(row.names) for name in row.names}
    return {name: value for name, value in defaults.items() if name not in set_by_user} | properties


def is_classic(consumer: Properties) -> bool:
    """Whether ZooKeeper is named: then the group is a classic one, as for Kafka's MirrorMaker from 0.10.1."""
    return bool(normalised(consumer).get("zookeeper_connect"))


def group_of(consumer: Properties) -> str:
    """The mirror's group. Raises ConfigError if there is none."""
    group = normalised(consumer).get("group_id")
    if not group:
        raise ConfigError("the consumer has no group.id: a mirror keeps its positions in a group")
    return str(group)


def batch_properties(producer: Properties) -> dict[str, object]:
    """For a consumer of a mirror that hands batches on as they are: those that the target stores so.

    A codec that was chosen is kept to. Brokers that store format 0 cannot tell it: their version is given.
    """
    properties: dict[str, object] = {"whole_batches_min_bytes": WHOLE_BYTES_MIN}
    given = normalised(producer)
    for name in ("compression_type", "compression_codec"):
        if given.get(name):
            properties["whole_batches_codec"] = given[name]
    if given.get("broker_version") or given.get("broker_version_fallback"):
        properties["whole_batches_format"] = 0
    return properties


def consumer_properties(given: Properties, stream: int, poll_ms: int) -> dict[str, object]:
    """For the consumer of one stream."""
    properties = _over(_CONSUMER_DEFAULTS, given, (*CLIENT_PROPERTIES, *FETCH_PROPERTIES))
    for name in _AUTO_COMMIT:
        if str(properties.pop(name, "false")).lower() == "true":
            log.warning("%s=true is ignored: a mirror commits what is stored, and nothing else", name)
    properties.setdefault("client_id", f"{group_of(given)}-{stream}")
    properties |= {"enable_auto_commit": False, "include_headers": True}
    for name in ("consumer_id", "group_instance_id"):
        if properties.get(name):  # each stream is a member of its own
            properties[name] = f"{properties[name]}-{stream}"
    if is_classic(given):
        properties["consumer_timeout_ms"] = poll_ms
    else:
        del properties["group_id"]
    return properties


def producer_properties(given: Properties) -> dict[str, object]:
    """For the producer that all streams share. ZooKeeper is for making topics, where brokers are old."""
    properties = _over(_PRODUCER_DEFAULTS, given, PRODUCER_PROPERTIES)
    properties.pop("zookeeper_connect", None)
    return properties


def admin_properties(given: Properties) -> dict[str, object]:
    """Of a client's properties, those that say where a cluster is and how to log in."""
    return {
        name: value
        for name, value in normalised(given).items()
        if name in _ADMIN_NAMES or name.startswith(_ADMIN_PREFIXES)
    }

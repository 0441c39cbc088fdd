"""The settings of a mirror's consumer and producer: the user's over the mirror's defaults.

Defaults can be overridden; auto-commit cannot be switched on, because it would lose records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ottla.admin.admin_config import ADMIN_PROPERTIES
from ottla.client.client_config import CLIENT_PROPERTIES, ClientConfig
from ottla.fetching.fetch_config import FETCH_PROPERTIES
from ottla.model.errors import ConfigError
from ottla.model.property_table import Property, snake
from ottla.producer.producer_config import PRODUCER_PROPERTIES

log = logging.getLogger(__name__)

Properties = Mapping[str, object]

INT_MAX = 2**31 - 1
WHOLE_BYTES_MIN = 128 << 10
"""Smaller batches are decoded and joined with others: a Produce request carries only one batch per partition,
and below this size that costs more than decoding (measured)."""
_AUTO_COMMIT = ("auto_commit_enable", "enable_auto_commit")
_CONSUMER_DEFAULTS: Properties = {
    "auto_offset_reset": "smallest",
    "metadata_max_age_ms": 10_000,  # so that new partitions do not wait for five minutes
    # Large responses: 2 to 4 times faster than with 1 MB. The queue needs room for the next responses.
    "fetch_message_max_bytes": 4 << 20,
    "queued_max_message_chunks": 4,
    "queued_max_bytes": 128 << 20,
}
_PRODUCER_DEFAULTS: Properties = {
    "delivery_timeout_ms": INT_MAX,
    "max_block_ms": INT_MAX,
    "metadata_max_age_ms": 10_000,
}
_EXACTLY_ONCE_DEFAULTS: Properties = {"metadata_max_age_ms": 10_000}
"""Without endless waits: brokers abort a transaction after transaction.timeout.ms anyway."""
_ADMIN_NAMES = {name for row in ADMIN_PROPERTIES for name in row.names}
_CLIENT_NAMES = {name for row in CLIENT_PROPERTIES for name in row.names}


def normalised(properties: Properties) -> dict[str, object]:
    """Return the properties with underscores in their names, so that each has one name."""
    return {snake(name): value for name, value in properties.items()}


def _over(defaults: Properties, given: Properties, table: Iterable[Property]) -> dict[str, object]:
    """Return the given properties over the defaults, by whichever synonym they are given."""
    properties = normalised(given)
    set_by_user = {name for row in table if properties.keys() & set(row.names) for name in row.names}
    return {name: value for name, value in defaults.items() if name not in set_by_user} | properties


def is_classic(consumer: Properties) -> bool:
    """Return whether zookeeper.connect is set: then the group is a classic one, as with Kafka's
    MirrorMaker."""
    return bool(normalised(consumer).get("zookeeper_connect"))


def group_of(consumer: Properties) -> str:
    """Return the mirror's group id. Raises ConfigError if there is none."""
    group = normalised(consumer).get("group_id")
    if not group:
        raise ConfigError("the consumer has no group.id: a mirror keeps its positions in a group")
    return str(group)


def batch_properties(producer: Properties) -> dict[str, object]:
    """Return settings of a consumer that passes on whole batches, of the kind that the target stores.

    If the producer has a codec, only batches of that codec. A target of 0.8 or 0.9 (broker.version is set)
    stores format 0.
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
    """Return the settings of the consumer of one stream."""
    properties = _over(_CONSUMER_DEFAULTS, given, (*CLIENT_PROPERTIES, *FETCH_PROPERTIES))
    for name in _AUTO_COMMIT:
        if str(properties.pop(name, "false")).lower() == "true":
            log.warning("%s=true is ignored: a mirror commits only what the target has stored", name)
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


def producer_properties(given: Properties, transactional_id: str | None = None) -> dict[str, object]:
    """Return the settings of the shared producer, without zookeeper.connect, which is for creating topics."""
    defaults = _PRODUCER_DEFAULTS if transactional_id is None else _EXACTLY_ONCE_DEFAULTS
    properties = _over(defaults, given, PRODUCER_PROPERTIES)
    properties.pop("zookeeper_connect", None)
    if transactional_id is not None:
        properties["transactional_id"] = transactional_id
    return properties


def admin_properties(given: Properties) -> dict[str, object]:
    """Return the properties that an Admin has too: where the cluster is, logins, time limits."""
    return {name: value for name, value in normalised(given).items() if name in _ADMIN_NAMES}


def client_config(given: Properties) -> ClientConfig:
    """Return the settings that a consumer or producer with these properties connects with."""
    return ClientConfig.from_properties(
        {name: value for name, value in normalised(given).items() if name in _CLIENT_NAMES}
    )

"""Translates a producer's properties file of any Kafka version for our producer.

Kafka's producers log a warning for unknown names and continue, and so does this tool. Names of the 0.8
producer that have a counterpart are translated.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.client.client_config import FOREIGN_PROPERTIES
from ottla.model.property_table import snake
from ottla.producer.producer_config import PRODUCER_PROPERTIES

log = logging.getLogger(__name__)

SYNC = "producer.type"
_NAMES_OF_0_8 = {
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
_CODECS_OF_0_8 = {"0": "none", "1": "gzip", "2": "snappy", "3": "lz4"}
_KNOWN = {name for row in PRODUCER_PROPERTIES for name in row.names} | {"zookeeper_connect"}
# Settings for other kinds of login must not be dropped: they are an error with a remedy.
_TOLD_OTHERWISE = {snake(name) for name in FOREIGN_PROPERTIES}


def is_sync(given: Mapping[str, str]) -> bool:
    """Whether to wait for each send."""
    return given.get(SYNC) == "sync"


def understood(given: Mapping[str, str]) -> dict[str, str]:
    """The properties that our producer knows. Logs the others."""
    properties: dict[str, str] = {}
    for name, value in given.items():
        name, value = _translated(name, value)
        if snake(name) in _KNOWN or snake(name) in _TOLD_OTHERWISE:
            properties.setdefault(name, value)
        elif name != SYNC:
            log.warning("The configuration %s = %s was supplied but isn't a known config.", name, value)
    return properties


def _translated(name: str, value: str) -> tuple[str, str]:
    if name == "compression.codec":
        return name, _CODECS_OF_0_8.get(value, value)
    if name == "topic.metadata.refresh.interval.ms" and int(value) <= 0:
        return name, value  # 0.8: refresh only when something fails, which this producer does in any case
    return _NAMES_OF_0_8.get(name, name), value

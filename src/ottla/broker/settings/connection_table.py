"""The settings of connections, of racks, and of the fetch sessions that clients keep."""

from __future__ import annotations

from typing import Any

from ottla.broker.settings.setting import Setting, UpdateMode
from ottla.model.errors import ConfigError
from ottla.model.property_table import INT, INT_MAX, LONG, TEXT, TEXTS


def _count(name: str, default: int, doc: str, target: str, **more: Any) -> Setting:
    return Setting(name, INT, default, doc, minimum=0, target=target, **more)


_SELECTORS = {
    "": False,
    "org.apache.kafka.common.replica.LeaderSelector": False,
    "org.apache.kafka.common.replica.RackAwareReplicaSelector": True,
}


def _selects_by_rack(name: str) -> bool:
    if name not in _SELECTORS:
        raise ConfigError(
            f"{name}: this broker runs no Java classes; give one of {', '.join(_SELECTORS)[2:]}"
        )
    return _SELECTORS[name]


CONNECTION_ROWS = (
    _count(
        "max.connections",
        10_000,
        "The largest number of connections; further ones are closed (Kafka: no limit; here each takes memory "
        "and a file descriptor of the process).",
        "connections_max",
        update=UpdateMode.CLUSTER_WIDE,
    ),
    _count(
        "max.connections.per.ip",
        INT_MAX,
        "The largest number of connections from one address; further ones are closed.",
        "connections_per_ip_max",
        update=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "broker.rack",
        TEXTS,
        None,
        "The broker's rack. Several brokers of a process have one each, with commas; the last is that of all "
        "further ones.",
        target="racks",
    ),
    Setting(
        "replica.selector.class",
        TEXT,
        None,
        "Kafka's RackAwareReplicaSelector: consumers with a client.rack read from the replica of that rack "
        "(KIP-392). If not set, or LeaderSelector: from the leader.",
        target="selects_by_rack",
        check=_selects_by_rack,
    ),
    _count(
        "max.incremental.fetch.session.cache.slots",
        1_000,
        "The largest number of fetch sessions; a client without one names all its partitions in every fetch.",
        "fetch_sessions_max",
    ),
    Setting(
        "connections.max.idle.ms",
        LONG,
        600_000,
        "A connection without requests for this time is closed; a negative value never closes it.",
        unit="ms",
        target="connections_idle_ms",
    ),
)

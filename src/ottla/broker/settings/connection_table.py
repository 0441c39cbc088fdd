"""The settings of connections and of the fetch sessions that clients keep."""

from __future__ import annotations

from typing import Any

from ottla.broker.settings.setting import Setting, UpdateMode
from ottla.model.property_table import INT, INT_MAX, LONG


def _count(name: str, default: int, doc: str, target: str, **more: Any) -> Setting:
    return Setting(name, INT, default, doc, minimum=0, target=target, **more)


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

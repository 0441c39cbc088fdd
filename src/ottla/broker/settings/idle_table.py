"""Kafka's broker settings that have no effect here and that Kafka changes while it runs.

They are described and can be changed as in Kafka, so that tools which tune a broker work: the values are
kept, and nothing here uses them. Defaults and limits are Kafka's.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.settings.setting import Setting, UpdateMode, table
from ottla.model.property_table import DOUBLE, INT, INT_MAX, LIST, LONG, TEXT, Kind

_THREADS = "Without effect: this broker has threads of its own, as many as it needs."
_CLEANER = "Without effect: compaction uses the memory of the logs that it cleans."
_NO_REMOTE = "Without effect: this broker has no remote storage."


def _row(name: str, kind: Kind, default: Any, doc: str, minimum: int | None = None) -> Setting:
    return Setting(name, kind, default, doc, minimum=minimum, update=UpdateMode.CLUSTER_WIDE)


IDLE_SETTINGS = table(
    (
        _row("background.threads", INT, 10, _THREADS, 1),
        _row("log.cleaner.dedupe.buffer.size", LONG, 128 << 20, _CLEANER),
        _row("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, _CLEANER),
        _row("log.cleaner.io.buffer.size", INT, 512 << 10, _CLEANER, 0),
        _row("log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308, _CLEANER),
        _row("log.cleaner.threads", INT, 1, _THREADS, 0),
        _row(
            "max.connection.creation.rate",
            INT,
            INT_MAX,
            "Without effect: connections are not slowed down.",
            0,
        ),
        _row(
            "max.connections.per.ip.overrides",
            TEXT,
            "",
            "Without effect: max.connections.per.ip is for all addresses.",
        ),
        _row("metric.reporters", LIST, (), "Without effect: ottla.metrics.port has the metrics."),
        _row("num.io.threads", INT, 8, _THREADS, 1),
        _row("num.network.threads", INT, 3, _THREADS, 1),
        _row("num.recovery.threads.per.data.dir", INT, 1, _THREADS, 1),
        _row("num.replica.fetchers", INT, 1, "Without effect: nobody replicates."),
        _row("remote.fetch.max.wait.ms", INT, 500, _NO_REMOTE, 1),
        _row("remote.log.index.file.cache.total.size.bytes", LONG, 1 << 30, _NO_REMOTE, 1),
        _row("remote.log.manager.fetch.max.bytes.per.second", LONG, (1 << 63) - 1, _NO_REMOTE, 1),
    )
)

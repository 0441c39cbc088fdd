"""Lag for Prometheus: gauges with the names of kafka_exporter.

    kafka_consumergroup_lag{consumergroup="billing",topic="orders",partition="0",kind="kafka"} 6

`kind` distinguishes a group with a coordinator from one of the same name in ZooKeeper. Unknown values have no
sample: a partition without a committed offset, or whose end could not be looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.admin.group_values import GroupLag, PartitionLag
from ottla.model.exposition import Labels, Metric, exposition


def lag_exposition(lags: Iterable[GroupLag]) -> str:
    """Return the text of a scrape, for groups of every kind."""
    return exposition(lag_metrics(lags))


def lag_metrics(lags: Iterable[GroupLag]) -> list[Metric]:
    """Return the metrics: lag and position of every partition, and the number of members of each group."""
    groups = list(lags)
    rows = [(_labels(lag, partition), partition) for lag in groups for partition in lag.partitions]
    return [
        _gauge(
            "lag",
            "Records between a group's position and the end of the log.",
            ((labels, partition.lag) for labels, partition in rows),
        ),
        _gauge(
            "lag_seconds",
            "How long the next record of a group has waited, by its own time; 0 if nothing is behind.",
            ((labels, partition.seconds) for labels, partition in rows),
        ),
        _gauge(
            "current_offset",
            "A group's position: the next offset that it reads.",
            ((labels, partition.committed) for labels, partition in rows),
        ),
        _gauge(
            "stopped",
            "1 for a partition that a member owns and cannot read.",
            ((labels, 1 if partition.stopped else None) for labels, partition in rows),
        ),
        _gauge(
            "members",
            "Running members of a group.",
            ((_group(lag), len(lag.group.members)) for lag in groups),
        ),
    ]


def _gauge(name: str, text: str, samples: Iterable[tuple[Labels, float | None]]) -> Metric:
    known: Iterator[tuple[Labels, float]] = (
        (labels, value) for labels, value in samples if value is not None
    )
    return Metric(f"kafka_consumergroup_{name}", "gauge", text, list(known))


def _group(lag: GroupLag) -> dict[str, object]:
    return {"consumergroup": lag.group.group_id, "kind": lag.group.kind.value}


def _labels(lag: GroupLag, partition: PartitionLag) -> Labels:
    topic, number = partition.topic_partition
    return _group(lag) | {"topic": topic, "partition": number}

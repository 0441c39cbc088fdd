"""Lag for Prometheus: gauges by the names that exporters for Kafka have made known.

    kafka_consumergroup_lag{consumergroup="billing",topic="orders",partition="0",kind="kafka"} 6

`kind` tells groups of one name apart, with a coordinator and in ZooKeeper. What is not known has no sample: a
partition that nothing was committed of, or whose end nobody tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.admin.group_values import GroupLag, PartitionLag
from ottla.model.exposition import Labels, Metric, exposition


def lag_exposition(lags: Iterable[GroupLag]) -> str:
    """What a scrape reads, of groups of both kinds."""
    return exposition(lag_metrics(lags))


def lag_metrics(lags: Iterable[GroupLag]) -> list[Metric]:
    """The same as families: lag and position of every partition, and how many members a group has."""
    groups = list(lags)
    rows = [(_place(lag, one), one) for lag in groups for one in lag.partitions]
    return [
        _gauge(
            "lag",
            "Records between a group's position and the end of the log.",
            ((labels, one.lag) for labels, one in rows),
        ),
        _gauge(
            "current_offset",
            "A group's position: the next offset that it reads.",
            ((labels, one.committed) for labels, one in rows),
        ),
        _gauge(
            "members",
            "Members of a group that are up.",
            ((_group(lag), len(lag.group.members)) for lag in groups),
        ),
    ]


def _gauge(name: str, text: str, samples: Iterable[tuple[Labels, int | None]]) -> Metric:
    known: Iterator[tuple[Labels, int]] = ((one, value) for one, value in samples if value is not None)
    return Metric(f"kafka_consumergroup_{name}", "gauge", text, list(known))


def _group(lag: GroupLag) -> dict[str, object]:
    return {"consumergroup": lag.group.group_id, "kind": lag.group.kind.value}


def _place(lag: GroupLag, one: PartitionLag) -> Labels:
    topic, partition = one.topic_partition
    return _group(lag) | {"topic": topic, "partition": partition}

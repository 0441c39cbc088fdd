"""Connections to every broker of a cluster, for questions that each of them has to answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ottla.client.client_config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.model.cluster_view import BrokerNode

DESCRIBE_TOPIC_PARTITIONS = 75


@contextmanager
def linked(properties: Mapping[str, object]) -> Iterator[tuple[ConnectionPool, list[BrokerNode]]]:
    """A connection pool, and the brokers in the order of their ids."""
    config = ClientConfig.from_properties(properties)
    metadata = ClusterMetadata(config)
    try:
        view = metadata.refresh((), reason="a tool asks")
        with ConnectionPool(config, metadata) as pool:
            yield pool, [view.brokers[number] for number in sorted(view.brokers)]
    finally:
        metadata.close()


def has_api(properties: Mapping[str, object], key: int) -> bool:
    """Whether a broker of the cluster serves an API."""
    with linked(properties) as (pool, _):
        return key in pool.to_any().versions.ranges

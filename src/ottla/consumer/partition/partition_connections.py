"""What a PartitionConsumer and a Replay ask brokers with: metadata, offsets of times, the fetch engine."""

from __future__ import annotations

from ottla.client.metadata import ClusterMetadata
from ottla.client.offset_lookup import OffsetLookup
from ottla.consumer.partition.partition_config import PartitionConfig
from ottla.fetching.engine import FetchEngine
from ottla.model.closing import Closing


class PartitionConnections(Closing):
    """Each connects at its first need. Knows nothing of the consumer, so it can stop a forgotten one."""

    def __init__(self, config: PartitionConfig) -> None:
        self.metadata = ClusterMetadata(config.client)
        self.lookup = OffsetLookup(config.client, self.metadata, config.fetch.isolation_level)
        self.engine = FetchEngine(config.client, config.fetch, self.metadata)

    def close(self) -> None:
        """End all waits and threads now, from any thread. May be called twice."""
        self.lookup.interrupt()
        self.metadata.interrupt()
        self.engine.close()
        self.metadata.close()
        self.lookup.close()

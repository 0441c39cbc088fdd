"""The connections of a PartitionConsumer or a Replay: metadata, offsets of times, the fetch engine."""

from __future__ import annotations

from ottla.client.metadata import ClusterMetadata
from ottla.client.offset_lookup import OffsetLookup
from ottla.consumer.partition.partition_config import PartitionConfig
from ottla.fetching.engine import FetchEngine
from ottla.model.closing import Closing


class PartitionConnections(Closing):
    """Each connects when it is first needed.

    Holds no reference to the consumer, so that a consumer that was dropped can be closed.
    """

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

"""Broker bytes → Arrow chunks, per partition, bounded.

`FetchEngine` reads partitions from their leaders; each has a `PartitionFeed` to poll, or several share an
`Inbox`. `places` has Kafka's names for who reads what from where, `config` what users set, `offset_lookup`
where logs begin and end. The pure core is `chunk_queue`, `cursor`, `request_plan`, `collector` and
`partition_table`; threads and sockets are in `fetcher` and `leader_finder` only.
"""

from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.config import FETCH_PROPERTIES, DamagePolicy, FetchConfig, IsolationLevel, OffsetReset
from ottla.fetching.engine import FetchEngine
from ottla.fetching.errors import MessageSizeTooLarge, PartitionError, Reaction
from ottla.fetching.feed import BY_RESET_POLICY, EARLIEST, LATEST, PartitionFeed
from ottla.fetching.inbox import Inbox
from ottla.fetching.places import (
    UNKNOWN_OFFSET,
    BrokerAndFetcherId,
    BrokerAndInitialOffset,
    PartitionTopicInfo,
    TopicAndPartition,
)

__all__ = [
    "FetchEngine",
    "PartitionFeed",
    "Inbox",
    "FetchedDataChunk",
    "FetchConfig",
    "FETCH_PROPERTIES",
    "OffsetReset",
    "IsolationLevel",
    "DamagePolicy",
    "TopicAndPartition",
    "BrokerAndFetcherId",
    "BrokerAndInitialOffset",
    "PartitionTopicInfo",
    "PartitionError",
    "Reaction",
    "MessageSizeTooLarge",
    "EARLIEST",
    "LATEST",
    "BY_RESET_POLICY",
    "UNKNOWN_OFFSET",
]

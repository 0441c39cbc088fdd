"""Kafka's low-level consumer: one broker, chosen partitions, offsets and sizes. The caller keeps positions.

`consumer` has the SimpleConsumer, `fetch_request` and `fetch_response` what goes to a broker and what comes
back, `leaders` how to find whom to ask, `offset_calls` offsets before a time and those that groups store.
"""

from ottla.fetching import TopicAndPartition
from ottla.offsets import OffsetAndMetadata
from ottla.simple.consumer import SimpleConsumer
from ottla.simple.fetch_request import FetchRequest, FetchRequestBuilder, PartitionFetchInfo
from ottla.simple.fetch_response import FetchedMessageSet, FetchResponse
from ottla.simple.leaders import LeaderConsumer, find_coordinator, find_leader, find_new_leader
from ottla.simple.metadata import PartitionMetadata, TopicMetadata
from ottla.simple.offset_calls import EARLIEST_TIME, LATEST_TIME

__all__ = [
    "SimpleConsumer",
    "FetchRequestBuilder",
    "FetchRequest",
    "PartitionFetchInfo",
    "FetchResponse",
    "FetchedMessageSet",
    "LeaderConsumer",
    "find_leader",
    "find_new_leader",
    "find_coordinator",
    "TopicMetadata",
    "PartitionMetadata",
    "TopicAndPartition",
    "OffsetAndMetadata",
    "EARLIEST_TIME",
    "LATEST_TIME",
]

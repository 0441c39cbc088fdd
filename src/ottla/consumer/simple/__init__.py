"""Kafka's low-level consumer: one broker, chosen partitions, offsets and sizes. The caller keeps positions.

`simple_consumer` has SimpleConsumer, `fetch_request` and `fetch_response` its request and answer,
`leader_consumer` finds leaders and coordinators, `offset_calls` has offsets by time and offsets of groups.
"""

from ottla.consumer.simple.fetch_request import FetchRequest, FetchRequestBuilder, PartitionFetchInfo
from ottla.consumer.simple.fetch_response import FetchedMessageSet, FetchResponse
from ottla.consumer.simple.leader_consumer import (
    LeaderConsumer,
    find_coordinator,
    find_leader,
    find_new_leader,
)
from ottla.consumer.simple.offset_calls import EARLIEST_TIME, LATEST_TIME
from ottla.consumer.simple.simple_consumer import SimpleConsumer
from ottla.consumer.simple.topic_metadata import PartitionMetadata, TopicMetadata
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import OffsetAndMetadata

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

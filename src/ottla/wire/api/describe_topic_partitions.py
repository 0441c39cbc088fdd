"""DescribeTopicPartitions, key 75: topics and their partitions, page by page.

Version notes: flexible from the start. An empty list asks for all topics. A cursor says where the next answer
continues; an answer without one is the last.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    boolean,
    field,
    int16,
    int32,
    request,
    response,
    string,
    struct,
    uuid,
)


@struct
class TopicName:
    name: str = field(string)


@struct
class PartitionCursor:
    topic_name: str = field(string)
    partition_index: int = field(int32)


@request(key=75, versions=0, flexible=0)
class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    topics: list[TopicName] = field(array(TopicName))
    response_partition_limit: int = field(int32, default=2000)
    cursor: PartitionCursor | None = field(PartitionCursor, nullable_since=0, default=None)


@struct
class DescribedPartition:
    error_code: int = field(int16)
    partition_index: int = field(int32)
    leader_id: int = field(int32)
    leader_epoch: int = field(int32, default=-1, ignorable=True)
    replica_nodes: list[int] = field(array(int32))
    isr_nodes: list[int] = field(array(int32))
    eligible_leader_replicas: list[int] | None = field(array(int32), nullable_since=0, default=None)
    last_known_elr: list[int] | None = field(array(int32), nullable_since=0, default=None)
    offline_replicas: list[int] = field(array(int32), ignorable=True)


@struct
class DescribedTopic:
    error_code: int = field(int16)
    name: str | None = field(string, nullable_since=0)
    topic_id: bytes = field(uuid, ignorable=True)
    is_internal: bool = field(boolean, ignorable=True)
    partitions: list[DescribedPartition] = field(array(DescribedPartition))
    topic_authorized_operations: int = field(int32, default=-0x8000_0000)


@response(DescribeTopicPartitionsRequest)
class DescribeTopicPartitionsResponse(Response):
    throttle_time_ms: int = field(int32, ignorable=True)
    topics: list[DescribedTopic] = field(array(DescribedTopic))
    next_cursor: PartitionCursor | None = field(PartitionCursor, nullable_since=0, default=None)

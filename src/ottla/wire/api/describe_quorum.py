"""DescribeQuorum, key 55: which brokers keep the metadata of the cluster.

Version notes: flexible from the start. 1 adds times, 2 directory ids, error texts and where the voters
listen.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    field,
    int16,
    int32,
    int64,
    request,
    response,
    string,
    struct,
    uint16,
    uuid,
)


@struct
class QuorumPartitionRequest:
    partition_index: int = field(int32)


@struct
class QuorumTopicRequest:
    topic_name: str = field(string)
    partitions: list[QuorumPartitionRequest] = field(array(QuorumPartitionRequest))


@request(key=55, versions=2, flexible=0)
class DescribeQuorumRequest(Request["DescribeQuorumResponse"]):
    topics: list[QuorumTopicRequest] = field(array(QuorumTopicRequest))


@struct
class QuorumReplica:
    replica_id: int = field(int32)
    replica_directory_id: bytes = field(uuid, since=2)
    log_end_offset: int = field(int64)
    last_fetch_timestamp: int = field(int64, since=1, default=-1, ignorable=True)
    last_caught_up_timestamp: int = field(int64, since=1, default=-1, ignorable=True)


@struct
class QuorumPartition:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, since=2, nullable_since=2, ignorable=True)
    leader_id: int = field(int32)
    leader_epoch: int = field(int32)
    high_watermark: int = field(int64)
    current_voters: list[QuorumReplica] = field(array(QuorumReplica))
    observers: list[QuorumReplica] = field(array(QuorumReplica))


@struct
class QuorumTopic:
    topic_name: str = field(string)
    partitions: list[QuorumPartition] = field(array(QuorumPartition))


@struct
class QuorumListener:
    name: str = field(string)
    host: str = field(string)
    port: int = field(uint16)


@struct
class QuorumNode:
    node_id: int = field(int32)
    listeners: list[QuorumListener] = field(array(QuorumListener))


@response(DescribeQuorumRequest)
class DescribeQuorumResponse(Response):
    error_code: int = field(int16)
    error_message: str | None = field(string, since=2, nullable_since=2, ignorable=True)
    topics: list[QuorumTopic] = field(array(QuorumTopic))
    nodes: list[QuorumNode] = field(array(QuorumNode), since=2)

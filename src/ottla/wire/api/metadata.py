"""Metadata, key 3: the brokers, and the leader and replicas of each partition.

Version notes: in 0 an empty list asks for all topics; from 1 on None does and an empty list asks for
none. Before 4 asking for a missing topic may create it. 10 adds topic ids, which a broker looks up from
12 on. Permissions of the cluster moved to DescribeCluster in 11. 13 adds an error for the whole response.
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
class MetadataTopic:
    topic_id: bytes = field(uuid, since=10, ignorable=True)
    name: str | None = field(string, nullable_since=10)


@request(key=3, versions=13, flexible=9)
class MetadataRequest(Request["MetadataResponse"]):
    topics: list[MetadataTopic] | None = field(array(MetadataTopic), nullable_since=1)
    allow_auto_topic_creation: bool = field(boolean, since=4, default=True)
    include_cluster_authorized_operations: bool = field(boolean, since=8, until=10)
    include_topic_authorized_operations: bool = field(boolean, since=8)


@struct
class MetadataBroker:
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, since=1, nullable_since=1, default=None, ignorable=True)


@struct
class MetadataPartitionResponse:
    error_code: int = field(int16)
    partition_index: int = field(int32)
    leader_id: int = field(int32)
    leader_epoch: int = field(int32, since=7, default=-1, ignorable=True)
    replica_nodes: list[int] = field(array(int32))
    isr_nodes: list[int] = field(array(int32))
    offline_replicas: list[int] = field(array(int32), since=5, ignorable=True)


@struct
class MetadataTopicResponse:
    error_code: int = field(int16)
    name: str | None = field(string, nullable_since=12)
    topic_id: bytes = field(uuid, since=10, ignorable=True)
    is_internal: bool = field(boolean, since=1, ignorable=True)
    partitions: list[MetadataPartitionResponse] = field(array(MetadataPartitionResponse))
    topic_authorized_operations: int = field(int32, since=8, default=-0x8000_0000)


@response(MetadataRequest)
class MetadataResponse(Response):
    throttle_time_ms: int = field(int32, since=3, ignorable=True)
    brokers: list[MetadataBroker] = field(array(MetadataBroker))
    cluster_id: str | None = field(string, since=2, nullable_since=2, default=None, ignorable=True)
    controller_id: int = field(int32, since=1, default=-1, ignorable=True)
    topics: list[MetadataTopicResponse] = field(array(MetadataTopicResponse))
    cluster_authorized_operations: int = field(int32, since=8, until=10, default=-0x8000_0000)
    error_code: int = field(int16, since=13, ignorable=True)

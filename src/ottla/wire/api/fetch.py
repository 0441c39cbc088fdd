"""Fetch, key 1: read record sets from partitions, waiting until enough has arrived.

Version notes: 2 admits message format 1, 4 admits format 2 and read-committed isolation, 10 admits zstd.
From 3 on the order of partitions matters, because the first ones fill `max_bytes`. 7 brings fetch
sessions, 9 leader epochs (KIP-320), 11 reading from a near replica (KIP-392). 12 reports diverging
epochs. 13 names topics by id. 15 moves `replica_id` into `replica_state`. 16 tells a misdirected consumer
who leads now.
"""

from __future__ import annotations

from ottla.wire.leader_hint import LeaderIdAndEpoch, NodeEndpoint
from ottla.wire.primitives import Buffer
from ottla.wire.schema import (
    Request,
    Response,
    array,
    field,
    int8,
    int16,
    int32,
    int64,
    record_set,
    request,
    response,
    string,
    struct,
    uuid,
    value,
)


@struct
class FetchPartition:
    partition: int = field(int32)
    current_leader_epoch: int = field(int32, since=9, default=-1, ignorable=True)
    fetch_offset: int = field(int64)
    last_fetched_epoch: int = field(int32, since=12, default=-1)
    log_start_offset: int = field(int64, since=5, default=-1, ignorable=True)
    partition_max_bytes: int = field(int32)
    replica_directory_id: bytes = field(uuid, since=17, tag=0, ignorable=True)
    high_watermark: int = field(int64, since=18, default=0x7FFF_FFFF_FFFF_FFFF, tag=1, ignorable=True)


@struct
class FetchTopic:
    topic: str = field(string, until=12, ignorable=True)
    topic_id: bytes = field(uuid, since=13, ignorable=True)
    partitions: list[FetchPartition] = field(array(FetchPartition))


@struct
class ForgottenTopic:
    topic: str = field(string, until=12, ignorable=True)
    topic_id: bytes = field(uuid, since=13, ignorable=True)
    partitions: list[int] = field(array(int32))


@value
class ReplicaState:
    replica_id: int = field(int32, default=-1)
    replica_epoch: int = field(int64, default=-1)


@request(key=1, versions=18, flexible=12)
class FetchRequest(Request["FetchResponse"]):
    replica_id: int = field(int32, until=14, default=-1)
    max_wait_ms: int = field(int32)
    min_bytes: int = field(int32)
    max_bytes: int = field(int32, since=3, default=0x7FFF_FFFF, ignorable=True)
    isolation_level: int = field(int8, since=4, ignorable=True)
    session_id: int = field(int32, since=7, ignorable=True)
    session_epoch: int = field(int32, since=7, default=-1, ignorable=True)
    topics: list[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array(ForgottenTopic), since=7)
    rack_id: str = field(string, since=11, ignorable=True)
    cluster_id: str | None = field(string, since=12, nullable_since=12, default=None, tag=0, ignorable=True)
    replica_state: ReplicaState = field(ReplicaState, since=15, tag=1)


@struct
class AbortedTransaction:
    producer_id: int = field(int64)
    first_offset: int = field(int64)


@value
class DivergingEpoch:
    epoch: int = field(int32, default=-1)
    end_offset: int = field(int64, default=-1)


@value
class SnapshotId:
    end_offset: int = field(int64, default=-1)
    epoch: int = field(int32, default=-1)


@struct
class FetchPartitionResponse:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    high_watermark: int = field(int64)
    last_stable_offset: int = field(int64, since=4, default=-1, ignorable=True)
    log_start_offset: int = field(int64, since=5, default=-1, ignorable=True)
    aborted_transactions: list[AbortedTransaction] | None = field(
        array(AbortedTransaction), since=4, nullable_since=4, ignorable=True
    )
    preferred_read_replica: int = field(int32, since=11, default=-1)
    records: Buffer | None = field(record_set, nullable_since=0)
    diverging_epoch: DivergingEpoch = field(DivergingEpoch, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, since=12, tag=2)


@struct
class FetchTopicResponse:
    topic: str = field(string, until=12, ignorable=True)
    topic_id: bytes = field(uuid, since=13, ignorable=True)
    partitions: list[FetchPartitionResponse] = field(array(FetchPartitionResponse))


@response(FetchRequest)
class FetchResponse(Response):
    throttle_time_ms: int = field(int32, since=1, ignorable=True)
    error_code: int = field(int16, since=7, ignorable=True)
    session_id: int = field(int32, since=7)
    responses: list[FetchTopicResponse] = field(array(FetchTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), since=16, tag=0)

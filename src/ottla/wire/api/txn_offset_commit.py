"""TxnOffsetCommit, key 28: store a group's positions as part of a transaction.

Version notes: 2 adds the leader epoch, 3 the membership of the consumer that read (KIP-447), 4 may answer
TRANSACTION_ABORTABLE. 5 also does what AddOffsetsToTxn did before (KIP-890). 6 names topics by id.
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
    uuid,
)


@struct
class TxnOffsetCommitPartition:
    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, since=2, default=-1, ignorable=True)
    committed_metadata: str | None = field(string, nullable_since=0)


@struct
class TxnOffsetCommitTopic:
    name: str = field(string, until=5, ignorable=True)
    topic_id: bytes = field(uuid, since=6, ignorable=True)
    partitions: list[TxnOffsetCommitPartition] = field(array(TxnOffsetCommitPartition))


@request(key=28, versions=6, flexible=3)
class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"]):
    transactional_id: str = field(string)
    group_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    generation_id_or_member_epoch: int = field(int32, since=3, default=-1)
    member_id: str = field(string, since=3)
    group_instance_id: str | None = field(string, since=3, nullable_since=3, default=None)
    topics: list[TxnOffsetCommitTopic] = field(array(TxnOffsetCommitTopic))


@struct
class TxnOffsetCommitPartitionResponse:
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class TxnOffsetCommitTopicResponse:
    name: str = field(string, until=5, ignorable=True)
    topic_id: bytes = field(uuid, since=6, ignorable=True)
    partitions: list[TxnOffsetCommitPartitionResponse] = field(array(TxnOffsetCommitPartitionResponse))


@response(TxnOffsetCommitRequest)
class TxnOffsetCommitResponse(Response):
    throttle_time_ms: int = field(int32)
    topics: list[TxnOffsetCommitTopicResponse] = field(array(TxnOffsetCommitTopicResponse))

"""ShareFetch, key 78: acquire records for a member of a share group, and acknowledge earlier ones (KIP-932).

Version notes: flexible from the start. 0 was an early access of Kafka 4.0, which later brokers refuse. 1
limits the count of records instead of the bytes of each partition, and says how long records stay locked. 2
can hold to that count exactly (KIP-1206) and renews locks (KIP-1222).
"""

from __future__ import annotations

from ottla.wire.leader_hint import NodeEndpoint
from ottla.wire.primitives import Buffer
from ottla.wire.schema import (
    Request,
    Response,
    array,
    boolean,
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
)


@struct
class AcknowledgementBatch:
    first_offset: int = field(int64)
    last_offset: int = field(int64)
    acknowledge_types: list[int] = field(array(int8))


@struct
class ShareFetchPartition:
    partition_index: int = field(int32)
    partition_max_bytes: int = field(int32, until=0)
    acknowledgement_batches: list[AcknowledgementBatch] = field(array(AcknowledgementBatch))


@struct
class ShareFetchTopic:
    topic_id: bytes = field(uuid)
    partitions: list[ShareFetchPartition] = field(array(ShareFetchPartition))


@struct
class ForgottenShareTopic:
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


@request(key=78, versions=2, flexible=0)
class ShareFetchRequest(Request["ShareFetchResponse"]):
    group_id: str | None = field(string, nullable_since=0, default=None)
    member_id: str | None = field(string, nullable_since=0)
    share_session_epoch: int = field(int32)
    max_wait_ms: int = field(int32)
    min_bytes: int = field(int32)
    max_bytes: int = field(int32, default=0x7FFF_FFFF)
    max_records: int = field(int32, since=1)
    batch_size: int = field(int32, since=1)
    share_acquire_mode: int = field(int8, since=2, ignorable=True)
    is_renew_ack: bool = field(boolean, since=2)
    topics: list[ShareFetchTopic] = field(array(ShareFetchTopic))
    forgotten_topics_data: list[ForgottenShareTopic] = field(array(ForgottenShareTopic))


@struct
class ShareLeader:
    leader_id: int = field(int32)
    leader_epoch: int = field(int32)


@struct
class AcquiredRecords:
    first_offset: int = field(int64)
    last_offset: int = field(int64)
    delivery_count: int = field(int16)


@struct
class ShareFetchPartitionResponse:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)
    acknowledge_error_code: int = field(int16)
    acknowledge_error_message: str | None = field(string, nullable_since=0, default=None)
    current_leader: ShareLeader = field(ShareLeader)
    records: Buffer | None = field(record_set, nullable_since=0)
    acquired_records: list[AcquiredRecords] = field(array(AcquiredRecords))


@struct
class ShareFetchTopicResponse:
    topic_id: bytes = field(uuid)
    partitions: list[ShareFetchPartitionResponse] = field(array(ShareFetchPartitionResponse))


@response(ShareFetchRequest)
class ShareFetchResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)
    acquisition_lock_timeout_ms: int = field(int32, since=1)
    responses: list[ShareFetchTopicResponse] = field(array(ShareFetchTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint))

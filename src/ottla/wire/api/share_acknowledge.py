"""ShareAcknowledge, key 79: say what became of records that a member of a share group acquired (KIP-932).

Version notes: flexible from the start. 0 was an early access of Kafka 4.0, which later brokers refuse. 2
renews locks (KIP-1222).
"""

from __future__ import annotations

from ottla.wire.api.share_fetch import AcknowledgementBatch, ShareLeader
from ottla.wire.leader_hint import NodeEndpoint
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
class AcknowledgePartition:
    partition_index: int = field(int32)
    acknowledgement_batches: list[AcknowledgementBatch] = field(array(AcknowledgementBatch))


@struct
class AcknowledgeTopic:
    topic_id: bytes = field(uuid)
    partitions: list[AcknowledgePartition] = field(array(AcknowledgePartition))


@request(key=79, versions=2, flexible=0)
class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"]):
    group_id: str | None = field(string, nullable_since=0, default=None)
    member_id: str | None = field(string, nullable_since=0)
    share_session_epoch: int = field(int32)
    is_renew_ack: bool = field(boolean, since=2)
    topics: list[AcknowledgeTopic] = field(array(AcknowledgeTopic))


@struct
class AcknowledgePartitionResponse:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)
    current_leader: ShareLeader = field(ShareLeader)


@struct
class AcknowledgeTopicResponse:
    topic_id: bytes = field(uuid)
    partitions: list[AcknowledgePartitionResponse] = field(array(AcknowledgePartitionResponse))


@response(ShareAcknowledgeRequest)
class ShareAcknowledgeResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)
    acquisition_lock_timeout_ms: int = field(int32, since=2, ignorable=True)
    responses: list[AcknowledgeTopicResponse] = field(array(AcknowledgeTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint))

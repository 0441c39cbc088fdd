"""ShareGroupHeartbeat, key 76: join a share group, stay in it, leave it, and learn the assignment (KIP-932).

Version notes: flexible from the start. 0 was an early access of Kafka 4.0, which later brokers refuse.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    field,
    int16,
    int32,
    request,
    response,
    string,
    struct,
    uuid,
)


@request(key=76, versions=1, flexible=0)
class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"]):
    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    rack_id: str | None = field(string, nullable_since=0, default=None)
    subscribed_topic_names: list[str] | None = field(array(string), nullable_since=0, default=None)


@struct
class ShareTopicPartitions:
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


@struct
class ShareAssignment:
    topic_partitions: list[ShareTopicPartitions] = field(array(ShareTopicPartitions))


@response(ShareGroupHeartbeatRequest)
class ShareGroupHeartbeatResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)
    member_id: str | None = field(string, nullable_since=0, default=None)
    member_epoch: int = field(int32)
    heartbeat_interval_ms: int = field(int32)
    assignment: ShareAssignment | None = field(ShareAssignment, nullable_since=0, default=None)

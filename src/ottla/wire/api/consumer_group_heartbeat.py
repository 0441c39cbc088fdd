"""ConsumerGroupHeartbeat, key 68: a member reports its partitions, and gets its assignment from the broker.

Version notes: flexible from the start. 1 adds subscriptions by a regular expression, and the member chooses
its own id. A field that is None has not changed since the member's last heartbeat.
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


@struct
class HeartbeatTopicPartitions:
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


@request(key=68, versions=1, flexible=0)
class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"]):
    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable_since=0, default=None)
    rack_id: str | None = field(string, nullable_since=0, default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    subscribed_topic_names: list[str] | None = field(array(string), nullable_since=0, default=None)
    subscribed_topic_regex: str | None = field(string, since=1, nullable_since=1, default=None)
    server_assignor: str | None = field(string, nullable_since=0, default=None)
    topic_partitions: list[HeartbeatTopicPartitions] | None = field(
        array(HeartbeatTopicPartitions), nullable_since=0, default=None
    )


@struct
class HeartbeatAssignment:
    topic_partitions: list[HeartbeatTopicPartitions] = field(array(HeartbeatTopicPartitions))


@response(ConsumerGroupHeartbeatRequest)
class ConsumerGroupHeartbeatResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)
    member_id: str | None = field(string, nullable_since=0, default=None)
    member_epoch: int = field(int32)
    heartbeat_interval_ms: int = field(int32)
    assignment: HeartbeatAssignment | None = field(HeartbeatAssignment, nullable_since=0, default=None)

"""ConsumerGroupDescribe, key 69: state and members of groups whose brokers assign (KIP-848).

Version notes: flexible from the start. 1 tells which protocol a member speaks (0 classic, 1 consumer).
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    request,
    response,
    string,
    struct,
    uuid,
)


@request(key=69, versions=1, flexible=0)
class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"]):
    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


@struct
class MemberTopicPartitions:
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class MemberAssignment:
    topic_partitions: list[MemberTopicPartitions] = field(array(MemberTopicPartitions))


@struct
class DescribedConsumer:
    member_id: str = field(string)
    instance_id: str | None = field(string, nullable_since=0, default=None)
    rack_id: str | None = field(string, nullable_since=0, default=None)
    member_epoch: int = field(int32)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    subscribed_topic_regex: str | None = field(string, nullable_since=0, default=None)
    assignment: MemberAssignment = field(MemberAssignment)
    target_assignment: MemberAssignment = field(MemberAssignment)
    member_type: int = field(int8, since=1, default=-1, ignorable=True)


@struct
class DescribedConsumerGroup:
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)
    group_id: str = field(string)
    group_state: str = field(string)
    group_epoch: int = field(int32)
    assignment_epoch: int = field(int32)
    assignor_name: str = field(string)
    members: list[DescribedConsumer] = field(array(DescribedConsumer))
    authorized_operations: int = field(int32, default=-0x8000_0000)


@response(ConsumerGroupDescribeRequest)
class ConsumerGroupDescribeResponse(Response):
    throttle_time_ms: int = field(int32)
    groups: list[DescribedConsumerGroup] = field(array(DescribedConsumerGroup))

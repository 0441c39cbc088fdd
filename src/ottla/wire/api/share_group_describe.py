"""ShareGroupDescribe, key 77: state and members of share groups (KIP-932).

Version notes: flexible from the start. 0 was an early access of Kafka 4.0, which later brokers refuse.
"""

from __future__ import annotations

from ottla.wire.api.consumer_group_describe import MemberAssignment
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
)


@request(key=77, versions=1, flexible=0)
class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"]):
    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


@struct
class DescribedShareMember:
    member_id: str = field(string)
    rack_id: str | None = field(string, nullable_since=0, default=None)
    member_epoch: int = field(int32)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    assignment: MemberAssignment = field(MemberAssignment)


@struct
class DescribedShareGroup:
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0, default=None)
    group_id: str = field(string)
    group_state: str = field(string)
    group_epoch: int = field(int32)
    assignment_epoch: int = field(int32)
    assignor_name: str = field(string)
    members: list[DescribedShareMember] = field(array(DescribedShareMember))
    authorized_operations: int = field(int32, default=-0x8000_0000)


@response(ShareGroupDescribeRequest)
class ShareGroupDescribeResponse(Response):
    throttle_time_ms: int = field(int32)
    groups: list[DescribedShareGroup] = field(array(DescribedShareGroup))

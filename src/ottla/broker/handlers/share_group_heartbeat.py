"""ShareGroupHeartbeat, key 76: join a share group, stay in it, leave it.

Versions: 1. 0 was an early access.
Behaviour: decided by `ottla.broker.share_groups`. Only the broker that coordinates the group answers.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.share_acknowledging import by_topic
from ottla.broker.serving.share_coordination import check_coordinator, check_kind
from ottla.broker.share_groups.core.group import LEAVE_EPOCH, Joining
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.share_group_heartbeat import (
    ShareAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareTopicPartitions,
)


def handle(inquiry: Inquiry, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    """Take the heartbeat in, and tell the member its assignment if that is new."""
    try:
        check_coordinator(inquiry, request.group_id)
        if not request.member_id:
            raise KafkaError(Code.INVALID_REQUEST, "the member id is missing")
        if request.member_epoch < LEAVE_EPOCH:
            raise KafkaError(Code.INVALID_REQUEST, f"there is no epoch {request.member_epoch}")
        return _answer(inquiry, request)
    except KafkaError as error:
        return ShareGroupHeartbeatResponse(error_code=Code.of(error.code), error_message=str(error))


def _answer(inquiry: Inquiry, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    shares, group_id, member_id = inquiry.broker.shares, request.group_id, request.member_id
    if request.member_epoch == LEAVE_EPOCH:
        shares.leave(group_id, member_id)
        return ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=LEAVE_EPOCH)
    check_kind(inquiry, group_id)
    names = request.subscribed_topic_names
    said = Joining(
        member_id,
        request.member_epoch,
        None if names is None else tuple(names),
        request.rack_id,
        inquiry.call.client_id or "",
        f"/{inquiry.link.peer_host}",
    )
    member, is_told = shares.heartbeat(group_id, said)
    assignment = None
    if is_told:
        assigned = shares.assigned(group_id, member_id)
        topics = [
            ShareTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(sorted(assigned)).items()
        ]
        assignment = ShareAssignment(topic_partitions=topics)
    return ShareGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=shares.heartbeat_interval_ms(group_id),
        assignment=assignment,
    )


def refuse(_request: ShareGroupHeartbeatRequest, error: Code, _version: int) -> ShareGroupHeartbeatResponse:
    """One error for the whole request."""
    return ShareGroupHeartbeatResponse(error_code=error, error_message=error.text)


HANDLER = Handler(handle, refuse)

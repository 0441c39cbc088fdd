"""DescribeShareGroupOffsets, key 90: where share groups begin in their partitions, and their lag.

Versions: 0 and 1. 1 has the lag: records that are neither accepted nor given up.
Behaviour: only the broker that coordinates a group answers. A partition from which the group has not read yet
has the start offset -1. A group that does not exist has no partitions, as in Kafka.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.share_acknowledging import by_topic
from ottla.broker.serving.share_coordination import coordinator_error
from ottla.broker.share_groups.core.records import ShareKey
from ottla.broker.share_groups.core.share_partition import UNINITIALIZED
from ottla.model.error_codes import Code
from ottla.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareOffsetsGroup,
    ShareOffsetsPartition,
    ShareOffsetsTopic,
    ShareOffsetsWantedGroup,
)

NO_ID = bytes(16)


def handle(inquiry: Inquiry, request: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
    """Describe each of the groups."""
    return DescribeShareGroupOffsetsResponse(
        groups=[_described(inquiry, wanted) for wanted in request.groups]
    )


def _described(inquiry: Inquiry, wanted: ShareOffsetsWantedGroup) -> ShareOffsetsGroup:
    shares, store = inquiry.broker.shares, inquiry.broker.store
    error = coordinator_error(inquiry, wanted.group_id)
    if error:
        return _refused(wanted.group_id, error)
    topics: list[tuple[str, list[int]]]
    if wanted.topics is None:
        known = by_topic(sorted((key.topic_id, key.partition) for key in shares.known(wanted.group_id)))
        topics = [(store.topic_names[item], known[item]) for item in known if item in store.topic_names]
    else:
        topics = [(topic.topic_name, topic.partitions) for topic in wanted.topics]
    return ShareOffsetsGroup(
        group_id=wanted.group_id,
        topics=[_topic(inquiry, wanted.group_id, name, partitions) for name, partitions in topics],
    )


def _topic(inquiry: Inquiry, group_id: str, name: str, partitions: list[int]) -> ShareOffsetsTopic:
    topic = inquiry.broker.store.catalog.topics.get(name)
    if topic is None:
        answers = [
            ShareOffsetsPartition(
                partition_index=index,
                error_code=Code.UNKNOWN_TOPIC_OR_PARTITION,
                error_message=f"there is no topic {name!r}",
            )
            for index in partitions
        ]
        return ShareOffsetsTopic(topic_name=name, topic_id=NO_ID, partitions=answers)
    keys = [ShareKey(group_id, topic.topic_id, index) for index in partitions]
    return ShareOffsetsTopic(
        topic_name=name, topic_id=topic.topic_id, partitions=[_partition(inquiry, name, key) for key in keys]
    )


def _partition(inquiry: Inquiry, name: str, key: ShareKey) -> ShareOffsetsPartition:
    shared = inquiry.broker.shares.known(key.group_id).get(key)
    answer = ShareOffsetsPartition(partition_index=key.partition, start_offset=UNINITIALIZED)
    partitions = inquiry.broker.store.partitions.get(name, [])
    if shared is None or shared.start_offset == UNINITIALIZED or key.partition >= len(partitions):
        return answer
    stored_partition = partitions[key.partition]
    answer.start_offset, answer.leader_epoch = shared.start_offset, stored_partition.leader_epoch
    if stored_partition.log is not None:
        answer.lag = max(stored_partition.log.high_watermark - shared.start_offset - shared.done_count, 0)
    return answer


def _refused(group_id: str, error: Code) -> ShareOffsetsGroup:
    return ShareOffsetsGroup(group_id=group_id, error_code=error, error_message=error.text)


def refuse(
    request: DescribeShareGroupOffsetsRequest, error: Code, _version: int
) -> DescribeShareGroupOffsetsResponse:
    """One error for every group."""
    return DescribeShareGroupOffsetsResponse(
        groups=[_refused(item.group_id, error) for item in request.groups]
    )


HANDLER = Handler(handle, refuse)

"""TxnOffsetCommit: offsets that take effect when the transaction of a producer is committed.

Which commits are accepted, as in Kafka (KIP-447): a named member must be in the group and in its present
generation. A request without a member is accepted, whether the group has members or not: before version 3
requests do not name members. A commit during a rebalance is accepted: the transaction may have begun before.
"""

from __future__ import annotations

from ottla.broker.coordination.effects import Caller
from ottla.broker.groups.coordinator import offsets
from ottla.broker.groups.coordinator.decision import CoordinatorStep, offset_error
from ottla.broker.groups.coordinator.group import CoordinatedGroup
from ottla.broker.groups.coordinator.state import GroupState
from ottla.model.error_codes import Code
from ottla.wire.api.offset_commit import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopic,
)
from ottla.wire.api.txn_offset_commit import (
    TxnOffsetCommitPartitionResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitTopicResponse,
)


def commit(error: Code, request: TxnOffsetCommitRequest, caller: Caller, step: CoordinatorStep) -> None:
    """Store offsets in a transaction, or answer why not."""
    if error:
        step.reply(caller, refused(request, error))
        return
    records, response = offsets.commit_records(_as_plain(request), step)
    if not records:
        step.reply(caller, _in_transaction(response))
        return

    def stored(step: CoordinatorStep, error: Code) -> None:
        for partition in (partition for topic in response.topics for partition in topic.partitions):
            partition.error_code = partition.error_code or offset_error(error)
        step.reply(caller, _in_transaction(response))

    step.append(request.group_id, records, stored, (request.producer_id, request.producer_epoch))


def refused(request: TxnOffsetCommitRequest, error: Code) -> TxnOffsetCommitResponse:
    """Return the same error for every partition: the response cannot carry it elsewhere."""
    return _in_transaction(offsets.commit_refused(_as_plain(request), error))


def commit_error(group: CoordinatedGroup | None, request: TxnOffsetCommitRequest) -> Code:
    """Return why a commit to a classic group must be refused, or NONE."""
    generation = request.generation_id_or_member_epoch
    if group is None:
        return Code.NONE if generation < 0 else Code.ILLEGAL_GENERATION
    names_nobody = generation < 0 and not request.member_id and request.group_instance_id is None
    if names_nobody or (generation < 0 and group.state is GroupState.EMPTY):
        return Code.NONE
    error = group.member_error(request.member_id, request.group_instance_id)
    return Code.ILLEGAL_GENERATION if not error and generation != group.generation else error


def _as_plain(request: TxnOffsetCommitRequest) -> OffsetCommitRequest:
    """Return the request that commits the same offsets without a transaction."""
    topics = [
        OffsetCommitTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitPartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    committed_metadata=partition.committed_metadata,
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitRequest(group_id=request.group_id, topics=topics)


def _in_transaction(response: OffsetCommitResponse) -> TxnOffsetCommitResponse:
    topics = [
        TxnOffsetCommitTopicResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                TxnOffsetCommitPartitionResponse(
                    partition_index=partition.partition_index, error_code=partition.error_code
                )
                for partition in topic.partitions
            ],
        )
        for topic in response.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)

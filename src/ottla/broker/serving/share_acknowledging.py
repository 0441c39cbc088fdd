"""Acknowledgements in ShareFetch and ShareAcknowledge: carried out at once, answered when they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from ottla.broker.serving.handler import Inquiry
from ottla.broker.share_groups.core.acknowledgements import acknowledged_ranges
from ottla.broker.share_groups.core.records import ShareKey
from ottla.broker.share_groups.core.sessions import FIRST_EPOCH, LAST_EPOCH, SessionKey, ShareSession
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.share_acknowledge import ShareAcknowledgeRequest
from ottla.wire.api.share_fetch import AcknowledgementBatch, ShareFetchRequest

TopicIdPartition = tuple[bytes, int]
Batches = Mapping[TopicIdPartition, list[AcknowledgementBatch]]
Outcomes = dict[TopicIdPartition, KafkaError | None]
"""The error of each partition whose records were acknowledged."""


def batches_of(request: ShareFetchRequest | ShareAcknowledgeRequest) -> Batches:
    """Return the acknowledgements of a request, by partition."""
    return {
        (topic.topic_id, wanted.partition_index): wanted.acknowledgement_batches
        for topic in request.topics
        for wanted in topic.partitions
        if wanted.acknowledgement_batches
    }


def open_session(
    inquiry: Inquiry, request: ShareFetchRequest | ShareAcknowledgeRequest
) -> tuple[SessionKey, ShareSession]:
    """Return the session of a request. Raises KafkaError for the whole request."""
    if not request.group_id or not request.member_id:
        raise KafkaError(Code.INVALID_REQUEST, "the name of the group or of the member is missing")
    epoch = request.share_session_epoch
    is_fetch = isinstance(request, ShareFetchRequest)
    if epoch == FIRST_EPOCH and (batches_of(request) or not is_fetch):
        code = Code.INVALID_REQUEST if is_fetch else Code.INVALID_SHARE_SESSION_EPOCH
        raise KafkaError(code, "a session does not begin with acknowledgements")
    broker = inquiry.broker
    key = SessionKey(broker.broker_id, request.group_id, request.member_id)
    session = broker.shares.sessions.take(key, epoch, broker.store.config.shares.sessions_max)
    inquiry.link.on_leave[key] = partial(broker.shares.end_session, key)
    return key, session


def acknowledge(
    inquiry: Inquiry,
    request: ShareFetchRequest | ShareAcknowledgeRequest,
    then: Callable[[Outcomes], None],
) -> None:
    """Carry out the acknowledgements of a request; `then` gets the outcomes, now or when they are stored.

    The last request of a session ends it after them.
    """
    outcomes: Outcomes = {}
    batches = batches_of(request)
    waiting = set(batches)
    group_id, member_id = request.group_id or "", request.member_id or ""

    def settled(partition: TopicIdPartition, error: KafkaError | None) -> None:
        outcomes[partition] = error
        waiting.discard(partition)
        if not waiting:
            then(outcomes)

    def stored(partition: TopicIdPartition, code: Code) -> None:
        settled(partition, KafkaError(code, code.text) if code else None)

    for partition, some in batches.items():
        key = ShareKey(group_id, *partition)
        try:
            _check_leader(inquiry, partition)
            ranges = acknowledged_ranges(some, may_renew=request.is_renew_ack)
            inquiry.broker.shares.acknowledge(key, member_id, ranges, partial(stored, partition))
        except KafkaError as error:
            settled(partition, error)
    if request.share_session_epoch == LAST_EPOCH:
        key_of_session = SessionKey(inquiry.broker.broker_id, group_id, member_id)
        inquiry.broker.shares.end_session(key_of_session)
        inquiry.link.on_leave.pop(key_of_session, None)
    if not batches:
        then(outcomes)


def _check_leader(inquiry: Inquiry, partition: TopicIdPartition) -> None:
    store = inquiry.broker.store
    stored_partition = store.partition(store.topic_name(partition[0]), partition[1])
    if stored_partition.leader != inquiry.broker.broker_id:
        raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, repr(stored_partition))


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    """Return partition numbers by topic id, in the given order."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in partitions:
        topics.setdefault(topic_id, []).append(index)
    return topics

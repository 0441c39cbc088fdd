"""TxnOffsetCommit, key 28: store how far a group has read, as part of a transaction.

Versions: 0 to 6. From 5 on the group's partition is added to the transaction here; before, AddOffsetsToTxn
must have named it. 6 names topics by id.
Behaviour: partitions and ids that do not exist are refused here. Then the transaction coordinator admits the
group's partition of the offsets topic, and the group coordinator decides, see
`ottla.broker.groups.coordinator.transactional_offsets`. The offsets count when the transaction is committed.
"""

from __future__ import annotations

from ottla.broker.coordination.led_partitions import partition_for
from ottla.broker.groups.coordinator.transactional_offsets import refused
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.storage.open_transactions import Refusals, TransactionClaim
from ottla.model.error_codes import Code
from ottla.model.topic_partition import OFFSETS_TOPIC, TopicAndPartition
from ottla.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitTopic,
)
from ottla.wire.declared_class import replaced

IDS_SINCE = 6
IMPLICIT_SINCE = 5
ABORTABLE_SINCE = 4
# What is retried in Produce is retried here too, under the names that this request knows.
_ERRORS = {Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_LOAD_IN_PROGRESS}


def handle(inquiry: Inquiry, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse | None:
    """Refuse what does not exist, have the group's partition admitted, and ask the group coordinator."""
    broker = inquiry.broker
    unknown = _unknown(inquiry, request)
    if unknown:
        return unknown
    broker.topics.find_or_create(OFFSETS_TOPIC)
    count = len(broker.store.partitions[OFFSETS_TOPIC])
    item = TopicAndPartition(OFFSETS_TOPIC, partition_for(request.group_id, count))
    partition = broker.store.partition(*item)
    if partition.leader != broker.broker_id:
        return refused(request, Code.NOT_COORDINATOR)
    named = replaced(request, topics=[_named(inquiry, topic) for topic in request.topics])

    def admitted(refusals: Refusals) -> None:
        refusal = refusals.get(item)
        if refusal is None:
            inquiry.ask_groups(named)
        else:
            inquiry.reply(refused(request, _error(Code.of(refusal.code), inquiry.version)))

    if partition.producers.is_open(request.producer_id, request.producer_epoch):
        admitted({})
    else:
        is_implicit = inquiry.version >= IMPLICIT_SINCE
        producer = request.producer_id, request.producer_epoch
        claim = TransactionClaim(request.transactional_id, *producer, (item,), is_implicit)
        broker.transactions.admit(claim, admitted)
    return None


def _error(error: Code, version: int) -> Code:
    if error is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return Code.INVALID_TXN_STATE
    return _ERRORS.get(error, error)


def _named(inquiry: Inquiry, topic: TxnOffsetCommitTopic) -> TxnOffsetCommitTopic:
    if inquiry.version < IDS_SINCE:
        return topic
    return replaced(topic, name=inquiry.broker.store.topic_names.get(topic.topic_id, ""))


def _unknown(inquiry: Inquiry, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse | None:
    """Return the answer to a request with partitions that do not exist: nothing of it is stored."""
    store = inquiry.broker.store
    is_by_id = inquiry.version >= IDS_SINCE
    response = refused(request, Code.NONE)
    is_known = True
    for topic in response.topics:
        name = store.topic_names.get(topic.topic_id, "") if is_by_id else topic.name
        error = Code.UNKNOWN_TOPIC_ID if is_by_id and not name else Code.UNKNOWN_TOPIC_OR_PARTITION
        count = len(store.partitions.get(name, ()))
        for partition in topic.partitions:
            if not 0 <= partition.partition_index < count:
                partition.error_code = error
                is_known = False
    return None if is_known else response


def refuse(request: TxnOffsetCommitRequest, error: Code, _version: int) -> TxnOffsetCommitResponse:
    """One error for every partition."""
    return refused(request, error)


HANDLER = Handler(handle, refuse)

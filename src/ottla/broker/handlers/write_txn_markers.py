"""WriteTxnMarkers, key 27: end transactions in partitions.

Versions: 0 to 2. 2 says which protocol the transactions have.
Behaviour: the coordinators of this process write their markers themselves; this is for tools that abort a
hanging transaction. The answer leaves when all markers are written, as with a produce request.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.turn import Failures
from ottla.log.end_markers import EndMarker
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.wire.api.write_txn_markers import (
    WritableMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    WrittenMarker,
    WrittenMarkerPartition,
    WrittenMarkerTopic,
)


class StagedMarker(NamedTuple):
    """An answer that waits for the end of the turn, and the partition that is written then."""

    partition: Partition
    answer: WrittenMarkerPartition


def handle(inquiry: Inquiry, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse | None:
    """Stage the markers; answer when they are written."""
    response = _answer_of(request, Code.NONE)
    staged: list[StagedMarker] = []
    for wanted, answer in zip(request.markers, response.markers, strict=True):
        for topic in answer.topics:
            for item in topic.partitions:
                _stage(inquiry, wanted, topic.name, item, staged)
    if not staged:
        return response
    inquiry.broker.runtime.turn.then(partial(_written, inquiry, response, staged))
    return None


def _stage(
    inquiry: Inquiry,
    wanted: WritableMarker,
    topic: str,
    answer: WrittenMarkerPartition,
    staged: list[StagedMarker],
) -> None:
    epochs = wanted.producer_epoch, wanted.coordinator_epoch
    marker = EndMarker(wanted.producer_id, *epochs, wanted.transaction_result, wanted.transaction_version)
    try:
        partition = inquiry.broker.store.partition(topic, answer.partition_index)
        inquiry.broker.appender.end_transaction(partition, marker)
    except (KafkaError, StorageError) as error:
        answer.error_code = error.code
    else:
        staged.append(StagedMarker(partition, answer))


def _written(
    inquiry: Inquiry, response: WriteTxnMarkersResponse, staged: list[StagedMarker], failures: Failures
) -> None:
    for partition, answer in staged:
        failure = failures.get(partition)
        if failure is not None:
            answer.error_code = failure.code
    inquiry.reply(response)


def _answer_of(request: WriteTxnMarkersRequest, error: Code) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WrittenMarker(
                producer_id=marker.producer_id,
                topics=[
                    WrittenMarkerTopic(
                        name=topic.name,
                        partitions=[
                            WrittenMarkerPartition(partition_index=index, error_code=error)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def refuse(request: WriteTxnMarkersRequest, error: Code, _version: int) -> WriteTxnMarkersResponse:
    """One error for every partition."""
    return _answer_of(request, error)


HANDLER = Handler(handle, refuse)

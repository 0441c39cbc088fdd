"""DescribeProducers, key 61: the producers that partitions know, and where their open transactions begin.

Versions: 0.
Behaviour: only a partition's leader answers. Tools use it to find hanging transactions.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.storage.partition import Partition
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.wire.api.describe_producers import (
    ActiveProducer,
    DescribedProducersPartition,
    DescribedProducersTopic,
    DescribeProducersRequest,
    DescribeProducersResponse,
)


def handle(inquiry: Inquiry, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """List the producers of each partition."""
    return DescribeProducersResponse(
        topics=[
            DescribedProducersTopic(
                name=topic.name,
                partitions=[_described(inquiry, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _described(inquiry: Inquiry, topic: str, index: int) -> DescribedProducersPartition:
    answer = DescribedProducersPartition(partition_index=index)
    try:
        partition = inquiry.broker.store.partition(topic, index)
        partition.led_log(inquiry.broker.broker_id)
    except (KafkaError, StorageError) as error:
        answer.error_code, answer.error_message = error.code, str(error)
    else:
        answer.active_producers = _producers(partition)
    return answer


def _producers(partition: Partition) -> list[ActiveProducer]:
    return [
        ActiveProducer(
            producer_id=item.producer_id,
            producer_epoch=item.epoch,
            last_sequence=item.last_sequence,
            last_timestamp=item.timestamp,
            coordinator_epoch=item.coordinator_epoch,
            current_txn_start_offset=item.transaction_offset,
        )
        for item in partition.producers.entries()
    ]


def refuse(request: DescribeProducersRequest, error: Code, _version: int) -> DescribeProducersResponse:
    """One error for every partition."""
    return DescribeProducersResponse(
        topics=[
            DescribedProducersTopic(
                name=topic.name,
                partitions=[
                    DescribedProducersPartition(partition_index=index, error_code=error)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER = Handler(handle, refuse)

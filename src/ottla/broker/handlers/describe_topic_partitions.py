"""DescribeTopicPartitions, key 75: topics and their partitions in the order of names, page by page.

Versions: 0.
Behaviour: describes topics as Metadata does, without creating any. An answer has at most
`max.request.partition.size.limit` partitions; its cursor says where the next one continues. There are no
eligible leader replicas (ELR): all brokers share the data.
"""

from __future__ import annotations

from ottla.broker.handlers.metadata import partition_metadata
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.storage.topic_changes import check_name
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.permissions import TOPIC_OPERATIONS
from ottla.model.topic_partition import INTERNAL_TOPICS
from ottla.wire.api.describe_topic_partitions import (
    DescribedPartition,
    DescribedTopic,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    PartitionCursor,
)

PARTITIONS_MAX = 2000
"""Partitions of an answer: `max.request.partition.size.limit` of Kafka."""


def handle(inquiry: Inquiry, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Describe topics from the cursor on, until the answer is full. Raises KafkaError for a wrong cursor."""
    cursor = request.cursor or PartitionCursor()
    named = {topic.name for topic in request.topics}
    known = inquiry.broker.store.partitions
    names = sorted(name for name in named or known if name >= cursor.topic_name)
    if request.cursor is not None and (
        cursor.partition_index < 0 or (named and cursor.topic_name not in named)
    ):
        reason = f"cursor {cursor.topic_name!r}, partition {cursor.partition_index}: not among the topics"
        raise KafkaError(Code.INVALID_REQUEST, reason)
    room = max(min(PARTITIONS_MAX, request.response_partition_limit), 1)
    topics: list[DescribedTopic] = []
    for name in names:
        first = cursor.partition_index if name == cursor.topic_name else 0
        if not room:
            next_cursor = PartitionCursor(topic_name=name, partition_index=0)
            return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)
        topic = _topic(inquiry, name, first, room)
        topics.append(topic)
        room -= len(topic.partitions)
        following = first + len(topic.partitions)
        if following < len(known.get(name, ())):
            next_cursor = PartitionCursor(topic_name=name, partition_index=following)
            return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)
    return DescribeTopicPartitionsResponse(topics=topics)


def _topic(inquiry: Inquiry, name: str, first: int, count: int) -> DescribedTopic:
    broker = inquiry.broker
    try:
        check_name(name)
        if name not in broker.store.partitions:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, name)
    except KafkaError as error:
        return DescribedTopic(error_code=error.code, name=name, topic_authorized_operations=TOPIC_OPERATIONS)
    partitions = []
    for partition in broker.store.partitions[name][first : first + count]:
        metadata = partition_metadata(broker.leaders, partition)
        partitions.append(
            DescribedPartition(
                error_code=metadata.error_code,
                partition_index=metadata.partition_index,
                leader_id=metadata.leader_id,
                leader_epoch=metadata.leader_epoch,
                replica_nodes=metadata.replica_nodes,
                isr_nodes=metadata.isr_nodes,
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=metadata.offline_replicas,
            )
        )
    return DescribedTopic(
        name=name,
        topic_id=broker.store.catalog.topics[name].topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def refuse(
    request: DescribeTopicPartitionsRequest, error: Code, _version: int
) -> DescribeTopicPartitionsResponse:
    """One error for every topic that the request names."""
    topics = [DescribedTopic(error_code=error, name=topic.name) for topic in request.topics]
    return DescribeTopicPartitionsResponse(topics=topics)


HANDLER = Handler(handle, refuse)

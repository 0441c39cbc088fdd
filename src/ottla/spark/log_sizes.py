"""How large the logs of partitions are on a broker's disk: the question and what its answer means. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse, LogDirTopic


def log_sizes_request(places: Iterable[TopicAndPartition]) -> DescribeLogDirsRequest:
    """For one broker."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        by_topic.setdefault(topic, []).append(partition)
    return DescribeLogDirsRequest(
        topics=[LogDirTopic(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
    )


def log_sizes(answer: DescribeLogDirsResponse) -> dict[TopicAndPartition, int]:
    """Bytes by partition; not those of copies that are only being made. Raises KafkaError."""
    if answer.error_code:
        raise KafkaError(answer.error_code, "sizes of logs")
    return {
        TopicAndPartition(topic.name, one.partition_index): one.partition_size
        for directory in answer.results
        if directory.error_code == Code.NONE
        for topic in directory.topics
        for one in topic.partitions
        if not one.is_future_key
    }

"""The directories in which brokers keep partitions, and how large these are; one request per broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.admin.access import ClusterAccess
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError
from ottla.model.topic_partition import TopicAndPartition, by_topic
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, LogDirTopic


@dataclass(frozen=True, slots=True)
class LogDir:
    """A directory of a broker, and the bytes of each partition in it."""

    broker_id: int
    path: str
    sizes: dict[TopicAndPartition, int] = field(default_factory=dict)


async def log_dirs(
    access: ClusterAccess, partitions: Iterable[TopicAndPartition] | None = None
) -> list[LogDir]:
    """Return the directories of all brokers that answer, with these partitions or all; other brokers are left
    out.

    Raises OttlaError if no broker answers.
    """
    topics = None
    if partitions is not None:
        topics = [
            LogDirTopic(topic=name, partitions=numbers) for name, numbers in by_topic(partitions).items()
        ]
    view = await access.view((), "finding log directories")
    directories: list[LogDir] = []
    for broker_id in sorted(view.brokers):
        try:
            directories += await _of_broker(access, broker_id, topics)
        except OttlaError:
            continue  # a broker before 1.0, or one that is down: other brokers may answer
    return directories


async def _of_broker(access: ClusterAccess, broker_id: int, topics: list[LogDirTopic] | None) -> list[LogDir]:
    answer = await (await access.broker(broker_id)).call(DescribeLogDirsRequest(topics=topics))
    if answer.error_code:
        raise KafkaError(answer.error_code, f"log directories of broker {broker_id}")
    return [
        LogDir(
            broker_id,
            directory.log_dir,
            {
                TopicAndPartition(topic.name, partition.partition_index): partition.partition_size
                for topic in directory.topics
                for partition in topic.partitions
                if not partition.is_future_key
            },
        )
        for directory in answer.results
        if directory.error_code == Code.NONE
    ]

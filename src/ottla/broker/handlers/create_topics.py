"""CreateTopics, key 19: make topics, with counts or with an explicit assignment.

Versions: 0 to 7. -1 stands for the broker's default of partitions or replicas, also before 4, as in Kafka.
5 tells what was made, 7 also its id.
Behaviour: each topic is made or refused by itself, and its leaders are there when the answer is. The settings
in the answer are all that a topic has, as DescribeConfigs tells them. Any broker does it.
"""

from __future__ import annotations

from collections import Counter

from ottla.broker import topics
from ottla.broker.catalog import Replicas, Topic
from ottla.broker.cluster import Cluster
from ottla.broker.described_configs import created_configs, described_topic
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.create_topics import (
    CreatedTopic,
    CreateTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.versions import VersionRange


def handle(inquiry: Inquiry, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Make each of the topics, or only look whether it could be made."""
    counts = Counter(topic.name for topic in request.topics)
    results = []
    for asked in {topic.name: topic for topic in request.topics}.values():
        try:
            if counts[asked.name] > 1:
                raise KafkaError(Code.INVALID_REQUEST, f"topic {asked.name!r} is in the request twice")
            results.append(_created(inquiry.cluster, asked, validate_only=request.validate_only))
        except KafkaError as error:
            results.append(_refused(asked.name, error.code, str(error)))
    return CreateTopicsResponse(topics=results)


def _created(cluster: Cluster, asked: CreateTopic, *, validate_only: bool) -> CreatedTopic:
    topics.check_new_name(cluster, asked.name)
    unset = [config.name for config in asked.configs if config.value is None]
    if unset:
        raise KafkaError(Code.INVALID_CONFIG, f"{', '.join(unset)}: a topic's setting needs a value")
    overrides = {config.name: config.value for config in asked.configs if config.value is not None}
    make = topics.draft if validate_only else topics.create
    return _described(cluster, make(cluster, asked.name, _replicas(cluster, asked), overrides))


def _replicas(cluster: Cluster, asked: CreateTopic) -> tuple[Replicas, ...]:
    if not asked.assignments:
        return topics.spread(cluster, asked.num_partitions, asked.replication_factor)
    if asked.num_partitions != topics.DEFAULT or asked.replication_factor != topics.DEFAULT:
        what = "with an assignment, the counts of partitions and replicas must be -1"
        raise KafkaError(Code.INVALID_REQUEST, what)
    by_index = {one.partition_index: one.broker_ids for one in asked.assignments}
    if len(by_index) != len(asked.assignments) or sorted(by_index) != list(range(len(by_index))):
        named = sorted(one.partition_index for one in asked.assignments)
        what = f"partitions {named}: they must be 0, 1, 2 and so on, each once"
        raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, what)
    return topics.assigned(cluster, [by_index[index] for index in range(len(by_index))])


def _described(cluster: Cluster, topic: Topic) -> CreatedTopic:
    return CreatedTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=topic.partition_count,
        replication_factor=len(topic.replicas[0]),
        configs=created_configs(described_topic(cluster.started_with, topic.overrides, cluster.dynamic)),
    )


def _refused(name: str, error: int, message: str) -> CreatedTopic:
    return CreatedTopic(name=name, error_code=error, error_message=message, configs=[])


def refuse(request: CreateTopicsRequest, error: Code, _version: int) -> CreateTopicsResponse:
    """One error for every topic."""
    return CreateTopicsResponse(topics=[_refused(topic.name, error, error.text) for topic in request.topics])


HANDLER = Handler(CreateTopicsRequest, VersionRange(0, 7), handle, refuse)

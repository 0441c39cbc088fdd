"""CreateTopics, key 19: make topics, with counts or with an explicit assignment.

Versions: 0 to 7. -1 stands for the broker's default of partitions or replicas, also before 4, as in Kafka.
From 5 on the answer has the counts and settings of the topic, from 7 on its id.
Behaviour: each topic is made or refused by itself, and its leaders are there when the answer is. The answer
has all settings of the topic, as DescribeConfigs does. Any broker does it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from ottla.broker.serving.client_quotas import MutationQuota
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.served_broker import ServedBroker
from ottla.broker.settings.described_configs import created_configs, described_topic
from ottla.broker.storage.catalog import Replicas, Topic
from ottla.broker.storage.topic_changes import DEFAULT, TopicChanges
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.create_topics import (
    CreatedTopic,
    CreateTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

STRICT_SINCE = 6
"""Older clients do not know the error for an exceeded quota."""
TOPICS_AT_ONCE = 20
"""Topics that are drafted, stored and described together: some milliseconds."""


def handle(inquiry: Inquiry, request: CreateTopicsRequest) -> None:
    """Create each topic, or only check whether that is possible. Many take many slices."""
    quota = inquiry.mutation_quota(is_strict=inquiry.version >= STRICT_SINCE)
    inquiry.reply_in_slices(_created(inquiry.broker, request, quota))


def _created(
    broker: ServedBroker, request: CreateTopicsRequest, quota: MutationQuota
) -> Generator[None, None, CreateTopicsResponse]:
    counts = Counter(topic.name for topic in request.topics)
    wanted = list({topic.name: topic for topic in request.topics}.values())
    results = []
    for first in range(0, len(wanted), TOPICS_AT_ONCE):
        drafts: dict[str, Topic] = {}
        errors: dict[str, KafkaError] = {}
        some = wanted[first : first + TOPICS_AT_ONCE]
        for topic in some:
            try:
                if counts[topic.name] > 1:
                    raise KafkaError(Code.INVALID_REQUEST, f"topic {topic.name!r} is in the request twice")
                draft = _draft(broker.topics, topic)
                quota.spend(draft.partition_count)
                drafts[topic.name] = draft
            except KafkaError as error:
                errors[topic.name] = error
        yield
        if not request.validate_only:
            errors |= yield from broker.topics.creation(list(drafts.values()))
        for topic in some:
            refusal = errors.get(topic.name)
            if refusal is None:
                results.append(_described(broker, drafts[topic.name]))
            else:
                results.append(_refused(topic.name, refusal.code, str(refusal)))
        yield
    return CreateTopicsResponse(topics=results, throttle_time_ms=quota.wait_ms)


def _draft(topics: TopicChanges, wanted: CreateTopic) -> Topic:
    """Return the topic that is wanted. Raises KafkaError."""
    topics.check_new_name(wanted.name)
    unset = [config.name for config in wanted.configs if config.value is None]
    if unset:
        raise KafkaError(Code.INVALID_CONFIG, f"{', '.join(unset)}: a topic's setting needs a value")
    overrides = {config.name: config.value for config in wanted.configs if config.value is not None}
    return topics.draft(wanted.name, _replicas(topics, wanted), overrides)


def _replicas(topics: TopicChanges, wanted: CreateTopic) -> tuple[Replicas, ...]:
    if not wanted.assignments:
        return topics.spread(wanted.num_partitions, wanted.replication_factor)
    if wanted.num_partitions != DEFAULT or wanted.replication_factor != DEFAULT:
        reason = "with an assignment, the counts of partitions and replicas must be -1"
        raise KafkaError(Code.INVALID_REQUEST, reason)
    by_index = {item.partition_index: item.broker_ids for item in wanted.assignments}
    if len(by_index) != len(wanted.assignments) or sorted(by_index) != list(range(len(by_index))):
        named = sorted(item.partition_index for item in wanted.assignments)
        reason = f"partitions {named}: they must be 0, 1, 2 and so on, each once"
        raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, reason)
    return topics.assigned([by_index[index] for index in range(len(by_index))])


def _described(broker: ServedBroker, topic: Topic) -> CreatedTopic:
    store = broker.store
    return CreatedTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=topic.partition_count,
        replication_factor=len(topic.replicas[0]),
        configs=created_configs(described_topic(store.started_with, topic.overrides, store.dynamic)),
    )


def _refused(name: str, error: int, message: str) -> CreatedTopic:
    return CreatedTopic(name=name, error_code=error, error_message=message, configs=[])


def refuse(request: CreateTopicsRequest, error: Code, _version: int) -> CreateTopicsResponse:
    """One error for every topic."""
    return CreateTopicsResponse(topics=[_refused(topic.name, error, error.text) for topic in request.topics])


HANDLER = Handler(handle, refuse)

"""DeleteTopics, key 20: remove topics, with everything in them and what groups have committed of them.

Versions: 0 to 6. From 6 on a topic may be named by its id.
Behaviour: a topic is gone when the answer is sent; its files are removed a little later. Internal topics can
be deleted too, as in Kafka: without __consumer_offsets there are no groups until a client looks for one. Any
broker does it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Generator

from ottla.broker.serving.client_quotas import MutationQuota
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.served_broker import ServedBroker
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.delete_topics import DeletedTopic, DeleteTopicsRequest, DeleteTopicsResponse

IDS_SINCE = 6
STRICT_SINCE = 5  # older clients do not know the error of a quota that is used up
DISABLED_SINCE = 3  # older clients do not know the code
NO_ID = bytes(16)

NameOrId = tuple[str | None, bytes]


TOPICS_AT_ONCE = 50
"""Topics that are deleted together, with one wait for the disk."""


def handle(inquiry: Inquiry, request: DeleteTopicsRequest) -> None:
    """Delete each of the topics. Many take many slices."""
    store = inquiry.broker.store
    if not store.config.delete_topic_enable:
        disabled = inquiry.version >= DISABLED_SINCE
        raise KafkaError(Code.TOPIC_DELETION_DISABLED if disabled else Code.INVALID_REQUEST)
    topics = _names_and_ids(request, inquiry.version)
    counts = Counter(name or store.topic_names.get(topic_id) for name, topic_id in topics)
    twice = {name for name, count in counts.items() if name and count > 1}
    quota = inquiry.mutation_quota(is_strict=inquiry.version >= STRICT_SINCE)
    inquiry.reply_in_slices(_deleted(inquiry.broker, list(dict.fromkeys(topics)), twice, quota))


def _deleted(
    broker: ServedBroker, topics: list[NameOrId], twice: Container[str], quota: MutationQuota
) -> Generator[None, None, DeleteTopicsResponse]:
    results = []
    for first in range(0, len(topics), TOPICS_AT_ONCE):
        deletable: dict[str, DeletedTopic] = {}
        for wanted in topics[first : first + TOPICS_AT_ONCE]:
            result = _checked(broker, wanted, twice, quota)
            results.append(result)
            if not result.error_code:
                deletable[result.name or ""] = result
        failed = yield from broker.topics.deletion(list(deletable))
        for name, error in failed.items():
            deletable[name].error_code, deletable[name].error_message = error.code, str(error)
        yield
    return DeleteTopicsResponse(responses=results, throttle_time_ms=quota.wait_ms)


def _names_and_ids(request: DeleteTopicsRequest, version: int) -> list[NameOrId]:
    if version >= IDS_SINCE:
        return [(topic.name, topic.topic_id) for topic in request.topics]
    return [(name, NO_ID) for name in request.topic_names]


def _checked(
    broker: ServedBroker, wanted: NameOrId, twice: Container[str], quota: MutationQuota
) -> DeletedTopic:
    """Return the answer for a topic that can be deleted, or why it cannot."""
    name, topic_id = wanted
    store = broker.store
    try:
        if (name is None) == (topic_id == NO_ID):
            raise KafkaError(Code.INVALID_REQUEST, "name each topic by its name or by its id, not by both")
        topic = store.topic(store.topic_name(topic_id) if name is None else name)
        if topic.name in twice:
            raise KafkaError(Code.INVALID_REQUEST, f"topic {topic.name!r} is in the request twice")
        broker.topics.check_deletion(topic.name)
        quota.spend(topic.partition_count)
    except KafkaError as error:
        return DeletedTopic(name=name, topic_id=topic_id, error_code=error.code, error_message=str(error))
    return DeletedTopic(name=topic.name, topic_id=topic.topic_id)


def refuse(request: DeleteTopicsRequest, error: Code, version: int) -> DeleteTopicsResponse:
    """One error for every topic."""
    return DeleteTopicsResponse(
        responses=[
            DeletedTopic(name=name, topic_id=topic_id, error_code=error, error_message=error.text)
            for name, topic_id in _names_and_ids(request, version)
        ]
    )


HANDLER = Handler(handle, refuse)

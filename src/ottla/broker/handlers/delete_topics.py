"""DeleteTopics, key 20: remove topics, with everything in them and what groups have committed of them.

Versions: 0 to 6. From 6 on a topic may be named by its id.
Behaviour: a topic is gone when the answer is sent; its files go a little later. Internal topics can be
deleted too, as in Kafka: without __consumer_offsets there are no groups until somebody asks for one. Any
broker does it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from ottla.broker import topics
from ottla.broker.cluster import Cluster
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.delete_topics import DeletedTopic, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.versions import VersionRange

IDS_SINCE = 6
DISABLED_SINCE = 3  # older clients do not know the code
NO_ID = bytes(16)

Asked = tuple[str | None, bytes]


def handle(inquiry: Inquiry, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete each of the topics."""
    if not inquiry.cluster.config.delete_topic_enable:
        disabled = inquiry.version >= DISABLED_SINCE
        raise KafkaError(Code.TOPIC_DELETION_DISABLED if disabled else Code.INVALID_REQUEST)
    known = inquiry.cluster.topic_names
    asked = _asked(request, inquiry.version)
    counts = Counter(name or known.get(topic_id) for name, topic_id in asked)
    twice = {name for name, count in counts.items() if name and count > 1}
    results = [_deleted(inquiry.cluster, one, twice) for one in dict.fromkeys(asked)]
    return DeleteTopicsResponse(responses=results)


def _asked(request: DeleteTopicsRequest, version: int) -> list[Asked]:
    if version >= IDS_SINCE:
        return [(topic.name, topic.topic_id) for topic in request.topics]
    return [(name, NO_ID) for name in request.topic_names]


def _deleted(cluster: Cluster, asked: Asked, twice: Container[str]) -> DeletedTopic:
    name, topic_id = asked
    try:
        if (name is None) == (topic_id == NO_ID):
            raise KafkaError(
                Code.INVALID_REQUEST, "a topic is named by its name or by its id, by one of them"
            )
        found = cluster.topic(cluster.topic_name(topic_id) if name is None else name)
        if found.name in twice:
            raise KafkaError(Code.INVALID_REQUEST, f"topic {found.name!r} is in the request twice")
        topics.delete(cluster, found.name)
    except KafkaError as error:
        return DeletedTopic(name=name, topic_id=topic_id, error_code=error.code, error_message=str(error))
    return DeletedTopic(name=found.name, topic_id=found.topic_id)


def refuse(request: DeleteTopicsRequest, error: Code, version: int) -> DeleteTopicsResponse:
    """One error for every topic."""
    return DeleteTopicsResponse(
        responses=[
            DeletedTopic(name=name, topic_id=topic_id, error_code=error, error_message=error.text)
            for name, topic_id in _asked(request, version)
        ]
    )


HANDLER = Handler(DeleteTopicsRequest, VersionRange(0, 6), handle, refuse)

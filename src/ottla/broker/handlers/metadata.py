"""Metadata, key 3: the brokers, and the leaders of topics.

Versions: 0 to 13. In 0 an empty list of topics means all; from 1 on null does. From 12 on a topic may be
named by its id; a name beside it does not matter.
Behaviour: a topic that does not exist is made, if auto.create.topics.enable is on and the client does not
forbid it (4 and later), and its leaders are in the same answer: no client has to ask twice. If the client
asks, the answer says which operations it may do.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import suppress

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.served_broker import ServedBroker
from ottla.broker.storage.leaders import Leaders
from ottla.broker.storage.partition import NO_LEADER, Partition
from ottla.broker.storage.topic_changes import check_name
from ottla.broker.storage.topic_store import exhausted
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.permissions import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, permitted
from ottla.model.topic_partition import INTERNAL_TOPICS
from ottla.wire.api.metadata import (
    MetadataBroker,
    MetadataPartitionResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    MetadataTopicResponse,
)

log = logging.getLogger(__name__)

IDS_SINCE = 12
"""Before this version requests may have ids, but answers need names."""
NO_ID = bytes(16)
AT_ONCE = 200
"""Partitions that are described at once. A topic that does not exist counts as half of that."""
TOPICS_AT_ONCE = 20


def handle(inquiry: Inquiry, request: MetadataRequest) -> MetadataResponse | None:
    """Describe the brokers that are up and the topics that the request names. Many take many slices."""
    partitions = inquiry.broker.store.partitions
    if request.topics is None or (inquiry.version == 0 and not request.topics):
        work = _all_topics(inquiry, request)
        is_long = sum(map(len, partitions.values())) > AT_ONCE
    else:
        work = _named_topics(inquiry, request, request.topics)
        sizes = [len(partitions.get(topic.name or "", ())) or AT_ONCE // 2 for topic in request.topics]
        is_long = sum(sizes) > AT_ONCE
    if not is_long:
        return exhausted(work)
    inquiry.reply_in_slices(work)
    return None


def _all_topics(inquiry: Inquiry, request: MetadataRequest) -> Generator[None, None, MetadataResponse]:
    broker = inquiry.broker
    topics = []
    for name in list(broker.store.partitions):
        if name in broker.store.partitions:  # a topic may be deleted between two slices
            topics.append(_described(broker, name))
        yield
    return _response(inquiry, request, topics)


def _named_topics(
    inquiry: Inquiry, request: MetadataRequest, wanted: list[MetadataTopic]
) -> Generator[None, None, MetadataResponse]:
    """Create the topics that do not exist, where that is allowed, and describe all."""
    broker = inquiry.broker
    topics = []
    for first in range(0, len(wanted), TOPICS_AT_ONCE):
        some = wanted[first : first + TOPICS_AT_ONCE]
        yield from _create_missing(broker, some, request)
        topics += [_named(inquiry, topic, request) for topic in some]
        yield
    return _response(inquiry, request, topics)


def _create_missing(
    broker: ServedBroker, wanted: list[MetadataTopic], request: MetadataRequest
) -> Generator[None, None, None]:
    """Create topics that clients name. `_named` reports why a topic cannot be created."""
    if not request.allow_auto_topic_creation:
        return
    drafts = {}
    for topic in wanted:
        if topic.name and topic.topic_id == NO_ID and topic.name not in broker.store.partitions:
            with suppress(KafkaError):
                drafts[topic.name] = broker.topics.auto_draft(topic.name)
    if drafts:
        failed = yield from broker.topics.creation(list(drafts.values()))
        for error in failed.values():
            log.error("a topic that a client named is not created: %s", error)


def _response(
    inquiry: Inquiry, request: MetadataRequest, topics: list[MetadataTopicResponse]
) -> MetadataResponse:
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
    return _cluster(inquiry, request, topics)


def _cluster(
    inquiry: Inquiry, request: MetadataRequest, topics: list[MetadataTopicResponse]
) -> MetadataResponse:
    broker = inquiry.broker
    return MetadataResponse(
        brokers=[
            MetadataBroker(node_id=broker_id, host=host, port=port, rack=broker.leaders.rack_of(broker_id))
            for broker_id, (host, port) in broker.leaders.at(inquiry.link.listener).items()
        ],
        cluster_id=broker.store.cluster_id,
        controller_id=broker.leaders.controller_id,
        topics=topics,
        cluster_authorized_operations=permitted(
            CLUSTER_OPERATIONS, is_asked=request.include_cluster_authorized_operations
        ),
    )


def _named(inquiry: Inquiry, topic: MetadataTopic, request: MetadataRequest) -> MetadataTopicResponse:
    broker = inquiry.broker
    is_by_id = topic.name is None or topic.topic_id != NO_ID
    if is_by_id and inquiry.version < IDS_SINCE:
        return MetadataTopicResponse(
            error_code=Code.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id
        )
    try:
        name = broker.store.topic_name(topic.topic_id) if is_by_id else topic.name or ""
        if name not in broker.store.partitions:
            check_name(name)
            if request.allow_auto_topic_creation:
                broker.topics.auto_draft(name)  # raises why it cannot be created
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        return _described(broker, name)
    except KafkaError as error:
        name_or_none = None if is_by_id else topic.name
        return MetadataTopicResponse(error_code=error.code, name=name_or_none, topic_id=topic.topic_id)


def _described(broker: ServedBroker, name: str) -> MetadataTopicResponse:
    return MetadataTopicResponse(
        name=name,
        topic_id=broker.store.catalog.topics[name].topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[
            partition_metadata(broker.leaders, partition) for partition in broker.store.partitions[name]
        ],
    )


def partition_metadata(leaders: Leaders, partition: Partition) -> MetadataPartitionResponse:
    return MetadataPartitionResponse(
        error_code=Code.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else Code.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=leaders.alive(partition.replicas),
        offline_replicas=[broker_id for broker_id in partition.replicas if broker_id not in leaders.brokers],
    )


def refuse(request: MetadataRequest, error: Code, version: int) -> MetadataResponse:
    """One error for every topic that the request names."""
    nameless = None if version >= IDS_SINCE else ""
    named = [
        MetadataTopicResponse(error_code=error, name=topic.name or nameless, topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=named, error_code=error)


def fail(inquiry: Inquiry, request: MetadataRequest, error: Code) -> MetadataResponse:
    """Describe the brokers, with one error for every topic."""
    if request.topics is None:
        request.topics = [MetadataTopic(name=name) for name in inquiry.broker.store.partitions]
    return _cluster(inquiry, request, refuse(request, error, inquiry.version).topics)


HANDLER = Handler(handle, refuse, fail=fail)

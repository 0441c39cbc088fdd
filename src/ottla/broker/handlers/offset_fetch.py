"""OffsetFetch, key 9: committed offsets of a group.

Versions: 0 to 10. 0 reads ZooKeeper, the others `__consumer_offsets`; 0 is only served with ZooKeeper. From 2
on null means all partitions, from 8 on a request may name several groups. 10 names topics by id.
Behaviour: ids become names here and back, unknown ones are refused; the rest is decided by the group
coordinator, see `ottla.broker.groups.coordinator`.
"""

from __future__ import annotations

from ottla.broker.groups.coordinator.offsets import fetch_refused, fetch_response, requested_groups
from ottla.broker.serving.division import Division
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.offset_fetch import OffsetFetchGroupTopic, OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.declared_class import replaced

IDS_SINCE = 10


def handle(inquiry: Inquiry, request: OffsetFetchRequest) -> None:
    """Ask the coordinator, or ZooKeeper."""
    if inquiry.version == 0:
        inquiry.broker.offsets_of_version_0().fetch(request, inquiry.reply)
    elif inquiry.version < IDS_SINCE:
        inquiry.ask_groups(request)
    else:
        _ask_by_ids(inquiry, request)


def _ask_by_ids(inquiry: Inquiry, request: OffsetFetchRequest) -> None:
    """Ask the coordinator with names; an unknown id has an empty name, which no topic has."""
    store = inquiry.broker.store

    def named(topics: list[OffsetFetchGroupTopic]) -> list[OffsetFetchGroupTopic]:
        return [replaced(topic, name=store.topic_names.get(topic.topic_id, "")) for topic in topics]

    def reply(response: OffsetFetchResponse) -> None:
        known = store.catalog.topics
        for group in response.groups:
            # If all offsets are requested, those of topics without an id cannot be returned.
            group.topics = [topic for topic in group.topics if not topic.name or topic.name in known]
            for topic in group.topics:
                if topic.name:
                    topic.topic_id = known[topic.name].topic_id
                    continue
                for partition in topic.partitions:
                    partition.error_code = Code.UNKNOWN_TOPIC_ID
        inquiry.reply(response)

    groups = [
        replaced(group, topics=None if group.topics is None else named(group.topics))
        for group in request.groups
    ]
    inquiry.ask_groups(replaced(request, groups=groups), reply)


def refuse(request: OffsetFetchRequest, error: Code, version: int) -> OffsetFetchResponse:
    """One error for every group."""
    groups = [fetch_refused(group, error, version) for group in requested_groups(request, version)]
    return fetch_response(groups, version)


HANDLER = Handler(
    handle,
    refuse,
    divisions=(
        Division(("topics", "partition_indexes"), ("topics", "partitions")),
        Division(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
    ),
)

"""OffsetCommit, key 8: store how far a group has read.

Versions: 0 to 9. 0 writes ZooKeeper, the others `__consumer_offsets`; 0 is only served with ZooKeeper. 10
names topics by id and is not served: Kafka 4.1 calls it unstable.
Behaviour: partitions that do not exist are refused here, the rest is decided by the group coordinator, see
`ottla.broker.groups`.
"""

from __future__ import annotations

from ottla.broker.groups.offsets import commit_refused
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse, OffsetCommitTopic
from ottla.wire.declared_class import replaced
from ottla.wire.versions import VersionRange

Topics = list[OffsetCommitTopic]


def handle(inquiry: Inquiry, request: OffsetCommitRequest) -> OffsetCommitResponse | None:
    """Refuse what does not exist, and ask the coordinator for the rest, or ZooKeeper."""
    if inquiry.version == 0:
        inquiry.cluster.zookeeper_offsets.commit(inquiry, request)
        return None
    known, unknown = _split(inquiry, request.topics)
    if not unknown:
        inquiry.node.groups.ask(inquiry, request)
        return None
    refused = commit_refused(replaced(request, topics=unknown), Code.UNKNOWN_TOPIC_OR_PARTITION)
    if not known:
        return refused

    def reply(response: OffsetCommitResponse) -> None:
        inquiry.reply(replaced(response, topics=[*response.topics, *refused.topics]))

    inquiry.node.groups.ask(inquiry, replaced(request, topics=known), reply)
    return None


def _split(inquiry: Inquiry, topics: list[OffsetCommitTopic]) -> tuple[Topics, Topics]:
    """The partitions that exist, and those that do not."""
    known: Topics = []
    unknown: Topics = []
    for topic in topics:
        count = len(inquiry.cluster.partitions.get(topic.name, ()))
        there = [one for one in topic.partitions if 0 <= one.partition_index < count]
        if len(there) == len(topic.partitions) and count:
            known.append(topic)
            continue
        missing = [one for one in topic.partitions if not 0 <= one.partition_index < count]
        known += [replaced(topic, partitions=there)] if there else []
        unknown.append(replaced(topic, partitions=missing))
    return known, unknown


def refuse(request: OffsetCommitRequest, error: Code, _version: int) -> OffsetCommitResponse:
    """One error for every partition."""
    return commit_refused(request, error)


HANDLER = Handler(OffsetCommitRequest, VersionRange(0, 9), handle, refuse, oldest_without_zookeeper=1)

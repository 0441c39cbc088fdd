"""OffsetCommit, key 8: store how far a group has read.

Versions: 0 to 9. 0 writes ZooKeeper, the others `__consumer_offsets`; 0 is only served with ZooKeeper. 10
names topics by id and is not served: Kafka 4.1 calls it unstable.
Behaviour: topics that do not exist are refused here, the rest is decided by the group coordinator, see
`ottla.broker.groups`.
"""

from __future__ import annotations

from ottla.broker.groups.offsets import commit_refused
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.declared_class import replaced
from ottla.wire.versions import VersionRange


def handle(inquiry: Inquiry, request: OffsetCommitRequest) -> OffsetCommitResponse | None:
    """Refuse unknown topics, and ask the coordinator for the others, or ZooKeeper."""
    if inquiry.version == 0:
        inquiry.cluster.zookeeper_offsets.commit(inquiry, request)
        return None
    existing = inquiry.cluster.partitions
    unknown = [topic for topic in request.topics if topic.name not in existing]
    if not unknown:
        inquiry.node.groups.ask(inquiry, request)
        return None
    refused = commit_refused(replaced(request, topics=unknown), Code.UNKNOWN_TOPIC_OR_PARTITION)
    known = [topic for topic in request.topics if topic.name in existing]
    if not known:
        return refused

    def reply(response: OffsetCommitResponse) -> None:
        inquiry.reply(replaced(response, topics=[*response.topics, *refused.topics]))

    inquiry.node.groups.ask(inquiry, replaced(request, topics=known), reply)
    return None


def refuse(request: OffsetCommitRequest, error: Code, _version: int) -> OffsetCommitResponse:
    """One error for every partition."""
    return commit_refused(request, error)


HANDLER = Handler(OffsetCommitRequest, VersionRange(0, 9), handle, refuse, oldest_without_zookeeper=1)

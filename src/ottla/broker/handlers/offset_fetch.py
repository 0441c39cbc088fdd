"""OffsetFetch, key 9: committed offsets of a group.

Versions: 0 to 9. 0 reads ZooKeeper, the others `__consumer_offsets`; 0 is only served with ZooKeeper. From 2
on null means all partitions, from 8 on several groups can be asked for. 10 names topics by id and is not
served: Kafka 4.1 calls it unstable.
Behaviour: decided by the group coordinator, see `ottla.broker.groups`.
"""

from __future__ import annotations

from ottla.broker.groups.offsets import asked_groups, fetch_refused, fetch_response
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.versions import VersionRange


def handle(inquiry: Inquiry, request: OffsetFetchRequest) -> None:
    """Ask the coordinator, or ZooKeeper."""
    if inquiry.version == 0:
        inquiry.cluster.zookeeper_offsets.fetch(inquiry, request)
    else:
        inquiry.node.groups.ask(inquiry, request)


def refuse(request: OffsetFetchRequest, error: Code, version: int) -> OffsetFetchResponse:
    """One error for every group."""
    groups = [fetch_refused(asked, error, version) for asked in asked_groups(request, version)]
    return fetch_response(groups, version)


HANDLER = Handler(OffsetFetchRequest, VersionRange(0, 9), handle, refuse, oldest_without_zookeeper=1)

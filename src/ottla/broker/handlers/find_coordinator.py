"""FindCoordinator, key 10: which broker coordinates a group.

Versions: 0 to 5. From 4 on several groups at once. 6 is for share groups and is not served.
Behaviour: it is the leader of the group's partition of `__consumer_offsets`, which is made by the first who
asks. Transactions do not exist here: their coordinator is refused with the code that makes every client fail
at once instead of asking for ever, see `ottla.broker.producer_ids`.
"""

from __future__ import annotations

from ottla.broker import topics
from ottla.broker.cluster import OFFSETS_TOPIC
from ottla.broker.groups import partition_for
from ottla.broker.partition import NO_LEADER
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.versions import VersionRange

GROUP, TRANSACTION = 0, 1
REFUSED = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
SEVERAL_SINCE = 4


def handle(inquiry: Inquiry, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Find each of the groups."""
    keys = request.coordinator_keys if inquiry.version >= SEVERAL_SINCE else [request.key]
    return _response([_found(inquiry, key, request.key_type) for key in keys], inquiry.version)


def _found(inquiry: Inquiry, key: str, key_type: int) -> Coordinator:
    cluster = inquiry.cluster
    try:
        if key_type == TRANSACTION:
            raise KafkaError(REFUSED, "this broker coordinates groups only, no transactions")
        if key_type != GROUP:
            raise KafkaError(Code.INVALID_REQUEST, f"key type {key_type}: 0 is a group")
        topics.find_or_create(cluster, OFFSETS_TOPIC)
        partition = cluster.partition(
            OFFSETS_TOPIC, partition_for(key, len(cluster.partitions[OFFSETS_TOPIC]))
        )
        if partition.leader == NO_LEADER:
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE, f"group {key!r}")
    except KafkaError as error:
        return _refused(key, Code.of(error.code), str(error))
    node = cluster.nodes[partition.leader]
    return Coordinator(key=key, node_id=node.broker_id, host=node.host, port=node.advertised_port)


def _refused(key: str, error: Code, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=message)


def _response(found: list[Coordinator], version: int) -> FindCoordinatorResponse:
    if version >= SEVERAL_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def refuse(request: FindCoordinatorRequest, error: Code, version: int) -> FindCoordinatorResponse:
    """One error for every group."""
    keys = request.coordinator_keys if version >= SEVERAL_SINCE else [request.key]
    return _response([_refused(key, error, error.text) for key in keys], version)


HANDLER = Handler(FindCoordinatorRequest, VersionRange(0, 5), handle, refuse)

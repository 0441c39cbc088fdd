"""FindCoordinator, key 10: which broker coordinates a group or a transactional id.

Versions: 0 to 6. From 4 on several at once. 6 may ask for the coordinator of a share partition, which only
brokers do: it is refused. As in Kafka, the text of a success is "NONE" before 4, and empty from then on.
Behaviour: it is the leader of the group's partition of `__consumer_offsets`, or of the id's partition of
`__transaction_state`. The first request creates the topic.
"""

from __future__ import annotations

from ottla.broker.coordination.led_partitions import partition_for
from ottla.broker.serving.division import Division
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.storage.partition import NO_LEADER
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

TOPICS = {0: OFFSETS_TOPIC, 1: TRANSACTIONS_TOPIC}
"""The topic of a coordinator, by the type of the key: a group or a transactional id."""
SEVERAL_SINCE = 4
SUCCESS = "NONE"


def handle(inquiry: Inquiry, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Find the coordinator of each group or transactional id."""
    keys = request.coordinator_keys if inquiry.version >= SEVERAL_SINCE else [request.key]
    return _response([_coordinator(inquiry, key, request.key_type) for key in keys], inquiry.version)


def _coordinator(inquiry: Inquiry, key: str, key_type: int) -> Coordinator:
    broker = inquiry.broker
    try:
        topic = TOPICS.get(key_type)
        if topic is None:
            reason = f"key type {key_type}: 0 is a group, 1 a transactional id"
            raise KafkaError(Code.INVALID_REQUEST, reason)
        broker.topics.find_or_create(topic)
        partition = broker.store.partition(topic, partition_for(key, len(broker.store.partitions[topic])))
        if partition.leader == NO_LEADER:
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE, repr(key))
    except KafkaError as error:
        return _refused(key, Code.of(error.code), str(error))
    host, port = broker.leaders.at(inquiry.link.listener)[partition.leader]
    return Coordinator(key=key, node_id=partition.leader, host=host, port=port)


def _refused(key: str, error: Code, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=message)


def _response(coordinators: list[Coordinator], version: int) -> FindCoordinatorResponse:
    if version >= SEVERAL_SINCE:
        return FindCoordinatorResponse(coordinators=coordinators)
    only = coordinators[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or SUCCESS,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def refuse(request: FindCoordinatorRequest, error: Code, version: int) -> FindCoordinatorResponse:
    """One error for every group."""
    keys = request.coordinator_keys if version >= SEVERAL_SINCE else [request.key]
    return _response([_refused(key, error, error.text) for key in keys], version)


HANDLER = Handler(
    handle,
    refuse,
    divisions=(Division(("coordinator_keys",), ("coordinators",)),),
)

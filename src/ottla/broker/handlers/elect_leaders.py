"""ElectLeaders, key 43: let the preferred brokers lead, the first in each partition's list of replicas.

Versions: 0 to 2. From 1 on a client can ask for an unclean election.
Behaviour: a partition whose preferred broker is up gets it as leader; one that has it already needs no
election, and is left out when the request names all partitions. A partition has a leader as long as one of
its brokers is up, and all brokers are in sync: there is never anything for an unclean election to do.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.served_broker import ServedBroker
from ottla.broker.storage.partition import NO_LEADER
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.elect_leaders import (
    ElectLeadersPartitionResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicResponse,
)

PREFERRED = 0
UNCLEAN = 1
WHOLE_SINCE = 1


def handle(inquiry: Inquiry, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Hold each election."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        return refuse(request, Code.INVALID_REQUEST, inquiry.version)
    broker = inquiry.broker
    names_all = request.topic_partitions is None
    wanted = {name: list(range(len(partitions))) for name, partitions in broker.store.partitions.items()}
    if request.topic_partitions is not None:
        wanted = {topic.topic: topic.partitions for topic in request.topic_partitions}
    results = []
    for topic, indexes in wanted.items():
        elections = [
            _elected(broker, topic, index, request.election_type) for index in dict.fromkeys(indexes)
        ]
        if names_all:
            elections = [result for result in elections if result.error_code != Code.ELECTION_NOT_NEEDED]
        if elections:
            results.append(ElectLeadersTopicResponse(topic=topic, partition_result=elections))
    return ElectLeadersResponse(replica_election_results=results)


def _elected(
    broker: ServedBroker, topic: str, index: int, election_type: int
) -> ElectLeadersPartitionResponse:
    try:
        _elect(broker, topic, index, election_type)
    except KafkaError as error:
        return _result(index, error.code, str(error))
    return _result(index, Code.NONE, None)


def _elect(broker: ServedBroker, topic: str, index: int, election_type: int) -> None:
    partition = broker.store.partition(topic, index)
    preferred = partition.replicas[0]
    if election_type == UNCLEAN:
        is_led = partition.leader != NO_LEADER
        raise KafkaError(
            Code.ELECTION_NOT_NEEDED if is_led else Code.ELIGIBLE_LEADERS_NOT_AVAILABLE, repr(partition)
        )
    if partition.leader == preferred:
        raise KafkaError(Code.ELECTION_NOT_NEEDED, repr(partition))
    if preferred not in broker.leaders.brokers:
        raise KafkaError(Code.PREFERRED_LEADER_NOT_AVAILABLE, f"{partition}, broker {preferred}")
    broker.leaders.lead([(partition, preferred)])


def _result(index: int, error: int, message: str | None) -> ElectLeadersPartitionResponse:
    return ElectLeadersPartitionResponse(partition_id=index, error_code=error, error_message=message)


def refuse(request: ElectLeadersRequest, error: Code, version: int) -> ElectLeadersResponse:
    """One error for every partition, and from 1 on for the whole request."""
    results = [
        ElectLeadersTopicResponse(
            topic=topic.topic,
            partition_result=[_result(index, error, error.text) for index in topic.partitions],
        )
        for topic in request.topic_partitions or ()
    ]
    whole = error if version >= WHOLE_SINCE else Code.NONE
    return ElectLeadersResponse(error_code=whole, replica_election_results=results)


HANDLER = Handler(handle, refuse)

"""ElectLeaders and ListPartitionReassignments, over a socket."""

from __future__ import annotations

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from ottla.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListReassignmentsTopic,
)
from tests.broker.handlers.admin.calls import create, described, topic
from tests.broker.wire_client import Client

PREFERRED, UNCLEAN = 0, 1
Errors = dict[str, dict[int, int]]


def elect(
    client: Client, asked: dict[str, list[int]] | None, kind: int = PREFERRED, version: int = 2
) -> tuple[int, Errors]:
    topics = None
    if asked is not None:
        topics = [ElectLeadersTopic(topic=name, partitions=indexes) for name, indexes in asked.items()]
    request = ElectLeadersRequest(topic_partitions=topics, timeout_ms=1000)
    if version >= 1:
        request.election_type = kind
    response = client.call(request, version)
    results = response.replica_election_results
    return response.error_code, {
        one.topic: {partition.partition_id: partition.error_code for partition in one.partition_result}
        for one in results
    }


def leaders(client: Client, name: str) -> list[int]:
    return [one.leader_id for one in described(client, name).partitions]


@pytest.mark.parametrize("version", range(3))
def test_the_preferred_broker_leads_again_in_every_version(version: int) -> None:
    with EmbeddedBroker(brokers=2) as cluster, Client.of(cluster.bootstrap) as client:
        create(client, topic("t", assignments={0: [1, 0], 1: [0, 1]}), topic("u", assignments={0: [1]}))
        cluster.stop_broker(1)
        assert leaders(client, "t") + leaders(client, "u") == [0, 0, -1]
        away = Code.PREFERRED_LEADER_NOT_AVAILABLE
        assert elect(client, None, version=version) == (Code.NONE, {"t": {0: away}, "u": {0: away}})
        cluster.start_broker(1)
        assert leaders(client, "t") + leaders(client, "u") == [0, 0, 1]
        epoch = described(client, "t").partitions[0].leader_epoch
        asked = {"t": [0, 1, 9], "nowhere": [0]}
        unknown, settled = Code.UNKNOWN_TOPIC_OR_PARTITION, Code.ELECTION_NOT_NEEDED
        assert elect(client, asked, version=version) == (
            Code.NONE,
            {"t": {0: Code.NONE, 1: settled, 9: unknown}, "nowhere": {0: unknown}},
        )
        assert leaders(client, "t") == [1, 0]
        assert described(client, "t").partitions[0].leader_epoch > epoch
        assert elect(client, None, version=version) == (Code.NONE, {}), "nothing was to be done"


def test_an_unclean_election_finds_nothing_to_do() -> None:
    with EmbeddedBroker(brokers=2) as cluster, Client.of(cluster.bootstrap) as client:
        create(client, topic("t", assignments={0: [0], 1: [1]}))
        cluster.stop_broker(1)
        errors = {0: Code.ELECTION_NOT_NEEDED, 1: Code.ELIGIBLE_LEADERS_NOT_AVAILABLE}
        assert elect(client, {"t": [0, 1]}, UNCLEAN) == (Code.NONE, {"t": errors})
        invalid = Code.INVALID_REQUEST
        assert elect(client, {"t": [0]}, 7) == (invalid, {"t": {0: invalid}})


def test_no_partition_is_ever_moved(client: Client) -> None:
    create(client, topic("unmoved"))
    asked = ListReassignmentsTopic(name="unmoved", partition_indexes=[0])
    for topics in (None, [], [asked]):
        found = client.call(ListPartitionReassignmentsRequest(topics=topics), 0)
        assert (found.error_code, found.error_message, found.topics) == (Code.NONE, None, [])

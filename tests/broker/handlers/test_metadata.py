"""Metadata and ApiVersions over a socket: what clients begin with."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.handlers.api_versions import UNLISTED
from ottla.broker.handlers.registry import served_versions
from ottla.model.error_codes import Code
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse, MetadataTopic, MetadataTopicResponse
from tests.broker.wire_client import Client

NEWEST = 13
IDS_SINCE = 10


def ask(client: Client, *names: str, version: int = NEWEST, create: bool = False) -> MetadataResponse:
    topics = [MetadataTopic(name=name) for name in names]
    asks_creation = create or version < 4
    return client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=asks_creation), version)


def about(client: Client, name: str, version: int = NEWEST, *, create: bool = False) -> MetadataTopicResponse:
    (found,) = ask(client, name, version=version, create=create).topics
    return found


def all_names(client: Client, version: int = NEWEST) -> set[str | None]:
    topics: list[MetadataTopic] | None = None if version else []
    return {one.name for one in client.call(MetadataRequest(topics=topics), version).topics}


# --- topics ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(NEWEST + 1))
def test_every_version_tells_brokers_and_leaders(
    broker: EmbeddedBroker, client: Client, topic: str, version: int
) -> None:
    response = ask(client, topic, version=version)
    (node,) = response.brokers
    assert (node.node_id, f"{node.host}:{node.port}", node.rack) == (0, broker.bootstrap, None)
    assert response.controller_id == (0 if version >= 1 else -1)
    assert bool(response.cluster_id) == (version >= 2)
    (found,) = response.topics
    assert (found.error_code, found.name, found.is_internal) == (Code.NONE, topic, False)
    assert (found.topic_id != bytes(16)) == (version >= IDS_SINCE)
    assert [one.partition_index for one in found.partitions] == [0, 1, 2]
    for one in found.partitions:
        assert (one.error_code, one.leader_id, one.replica_nodes, one.isr_nodes) == (0, 0, [0], [0])
        assert (one.leader_epoch, one.offline_replicas) == (0 if version >= 7 else -1, [])


@pytest.mark.parametrize("version", range(NEWEST + 1))
def test_all_topics(client: Client, topic: str, version: int) -> None:
    assert topic in all_names(client, version)


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_no_topics(client: Client, topic: str, version: int) -> None:
    assert client.call(MetadataRequest(topics=[]), version).topics == []


@pytest.mark.parametrize("version", range(4, NEWEST + 1))
def test_unknown_topics_are_not_made_by_a_mere_question(client: Client, version: int) -> None:
    found = about(client, "nowhere", version)
    assert (found.error_code, found.name, found.partitions) == (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        "nowhere",
        [],
    )
    assert "nowhere" not in all_names(client)


@pytest.mark.parametrize("version", range(NEWEST + 1))
def test_topics_are_made_by_being_asked_for(client: Client, version: int) -> None:
    name = f"made-{version}"
    found = about(client, name, version, create=True)
    assert (found.error_code, [one.leader_id for one in found.partitions]) == (Code.NONE, [0])
    assert name in all_names(client)


@pytest.mark.parametrize("version", [0, 3, 4, NEWEST])
def test_auto_creation_can_be_switched_off(version: int) -> None:
    properties = {"auto.create.topics.enable": "false"}
    with EmbeddedBroker(properties=properties) as broker, Client.of(broker.bootstrap) as client:
        assert about(client, "t", version, create=True).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert all_names(client) == set()


@pytest.mark.parametrize("name", ["with blank", "", ".", "..", "x" * 250, "ä", "a/b"])
@pytest.mark.parametrize("create", [False, True])
def test_names_that_no_topic_can_have(client: Client, name: str, create: bool) -> None:
    assert about(client, name, create=create).error_code == Code.INVALID_TOPIC_EXCEPTION


def test_a_name_that_collides_is_not_made(client: Client) -> None:
    assert about(client, "one.two", create=True).error_code == Code.NONE
    assert about(client, "one_two", create=True).error_code == Code.INVALID_TOPIC_EXCEPTION


def test_several_topics_at_once_fail_one_by_one(client: Client, topic: str) -> None:
    found = ask(client, topic, "nowhere", "bad name").topics
    assert [(one.name, one.error_code) for one in found] == [
        (topic, Code.NONE),
        ("nowhere", Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("bad name", Code.INVALID_TOPIC_EXCEPTION),
    ]


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(client: Client, topic: str, version: int) -> None:
    topic_id = about(client, topic).topic_id
    asked = [MetadataTopic(name=None, topic_id=topic_id), MetadataTopic(name=None, topic_id=b"?" * 16)]
    known, unknown = client.call(MetadataRequest(topics=asked), version).topics
    assert (known.error_code, known.name, known.topic_id) == (Code.NONE, topic, topic_id)
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (Code.UNKNOWN_TOPIC_ID, None, b"?" * 16)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_alone_are_not_enough_before_version_12(client: Client, topic: str, version: int) -> None:
    asked = [MetadataTopic(name=None, topic_id=about(client, topic).topic_id)]
    (found,) = client.call(MetadataRequest(topics=asked), version).topics
    assert found.error_code == Code.INVALID_REQUEST


def test_the_offsets_topic_is_internal_and_made_by_the_first_group(client: Client) -> None:
    assert about(client, "__consumer_offsets").error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    client.call(FindCoordinatorRequest(key="g"), 1)
    found = about(client, "__consumer_offsets", 1)
    assert (found.is_internal, len(found.partitions)) == (True, 3)


def test_a_partition_without_a_leader() -> None:
    with EmbeddedBroker(brokers=2) as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("single", 2)
        broker.create_topic("double", 2, replication_factor=2)
        broker.stop_broker(1)
        response = ask(client, "single", "double")
        assert [node.node_id for node in response.brokers] == [0]
        single, double = response.topics
        states = [(one.error_code, one.leader_id, one.offline_replicas) for one in single.partitions]
        assert states == [(Code.NONE, 0, []), (Code.LEADER_NOT_AVAILABLE, -1, [1])]
        assert [(one.leader_id, one.isr_nodes, one.offline_replicas) for one in double.partitions] == [
            (0, [0], [1]),
            (0, [0], [1]),
        ]
        assert [one.leader_epoch for one in double.partitions] == [0, 1], "the one that moved has a new epoch"


# --- what is served -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_the_table_of_versions_is_that_of_the_handlers(client: Client, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    response = client.call(request if version >= 3 else ApiVersionsRequest(), version)
    assert response.error_code == Code.NONE
    told = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    served = served_versions(zookeeper=False)
    assert told == {key: (one.oldest, one.newest) for key, one in served.items() if key not in UNLISTED}
    assert told[0][0] == 0, "librdkafka does not compress otherwise"


@pytest.mark.parametrize(
    ("name", "version", "is_right"),
    [
        ("librdkafka", "2.0.2", True),
        ("a", "1", True),
        ("a-b.c", "1.0-rc1", True),
        ("", "1", False),
        ("a", "", False),
        ("a b", "1", False),
        ("-a", "1", False),
        ("a-", "1", False),
        ("a", "1-", False),
        ("ä", "1", False),
    ],
)
@pytest.mark.parametrize("asked", [3, 4])
def test_what_a_client_may_call_itself(
    client: Client, asked: int, name: str, version: str, is_right: bool
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    response = client.call(request, asked)
    assert response.error_code == (Code.NONE if is_right else Code.INVALID_REQUEST)
    assert bool(response.api_keys) == is_right


# --- coordinators ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_every_version_finds_the_coordinator(broker: EmbeddedBroker, client: Client, version: int) -> None:
    if version < 4:
        only = client.call(FindCoordinatorRequest(key="g"), version)
        found = [(only.error_code, only.node_id, f"{only.host}:{only.port}")]
    else:
        many = client.call(FindCoordinatorRequest(coordinator_keys=["g", "h"]), version).coordinators
        assert [one.key for one in many] == ["g", "h"]
        found = [(one.error_code, one.node_id, f"{one.host}:{one.port}") for one in many]
    assert set(found) == {(Code.NONE, 0, broker.bootstrap)}


@pytest.mark.parametrize("version", range(1, 6))
def test_coordinators_by_the_type_of_the_key(client: Client, version: int) -> None:
    keys: dict[str, Any] = {"key": "x"} if version < 4 else {"coordinator_keys": ["x"]}
    answers = []
    for key_type in (1, 2):
        response = client.call(FindCoordinatorRequest(key_type=key_type, **keys), version)
        answer = response if version < 4 else response.coordinators[0]
        answers.append((answer.error_code, answer.node_id))
    assert answers == [(Code.NONE, 0), (Code.INVALID_REQUEST, -1)], "a transactional id, a share group"


@pytest.mark.parametrize("version", range(6))
def test_producers_get_ids(client: Client, version: int) -> None:
    ids = set()
    for _ in range(3):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        got = client.call(request, version)
        assert (got.error_code, got.producer_epoch) == (Code.NONE, 0)
        ids.add(got.producer_id)
    assert len(ids) == 3
    refused: list[dict[str, Any]] = [{"transactional_id": ""}]
    if version >= 3:
        refused.append({"transactional_id": "t", "producer_id": 5})
        refused.append({"transactional_id": None, "producer_epoch": 5})
    for fields in refused:
        request = InitProducerIdRequest(transaction_timeout_ms=1000, **fields)
        answer = client.call(request, version)
        assert (answer.error_code, answer.producer_id) == (Code.INVALID_REQUEST, -1), fields

"""CreateTopics, CreatePartitions and DeleteTopics, over a socket."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import cast

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.wire.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResponse,
)
from ottla.wire.api.create_topics import CreateTopic
from ottla.wire.api.delete_topics import DeletedTopic, DeleteTopic, DeleteTopicsRequest
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from tests.broker.handlers.admin.calls import (
    LATEST,
    bound,
    commit,
    committed,
    create,
    created,
    delete,
    described,
    names,
    produce,
    topic,
)
from tests.broker.wire_client import Client
from tests.waiting import wait_for

NO_ID = bytes(16)


def grow(
    client: Client,
    name: str,
    count: int,
    assignments: list[list[int]] | None = None,
    *,
    version: int = 3,
    validate_only: bool = False,
) -> CreatePartitionsTopicResponse:
    given = (
        None if assignments is None else [CreatePartitionsAssignment(broker_ids=one) for one in assignments]
    )
    asked = CreatePartitionsTopic(name=name, count=count, assignments=given)
    response = client.call(CreatePartitionsRequest(topics=[asked], validate_only=validate_only), version)
    (result,) = response.results
    return result


def leaders(client: Client, name: str) -> list[int]:
    return [one.leader_id for one in described(client, name).partitions]


def replicas(client: Client, name: str) -> list[list[int]]:
    return [one.replica_nodes for one in described(client, name).partitions]


# --- create ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(8))
def test_create_in_every_version(client: Client, version: int) -> None:
    name = f"made-{version}"
    (result,) = create(client, topic(name, 3, 2), version=version)
    assert (result.name, result.error_code) == (name, Code.NONE)
    assert version < 1 or result.error_message is None
    found = described(client, name)
    assert [one.leader_id for one in found.partitions] == [0, 1, 2], "leaders in turn, at once"
    assert [len(one.isr_nodes) for one in found.partitions] == [2, 2, 2]
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 2)
        configs = {one.name: one.value for one in result.configs or []}
        assert configs["retention.ms"] == "604800000"
    if version >= 7:
        assert result.topic_id == found.topic_id != NO_ID
    (again,) = create(client, topic(name), version=version)
    assert again.error_code == Code.TOPIC_ALREADY_EXISTS
    assert again.configs in ([], None if version < 5 else [])
    if version >= 1:
        assert again.error_message is not None
        assert name in again.error_message


@pytest.mark.parametrize("version", range(1, 8))
def test_a_creation_can_be_tried_only(client: Client, version: int) -> None:
    (result,) = create(client, topic(f"tried-{version}", 2), version=version, validate_only=True)
    assert result.error_code == Code.NONE
    assert f"tried-{version}" not in names(client)


def test_minus_one_is_the_default(client: Client) -> None:
    (result,) = create(client, topic("by-default", -1, -1))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (Code.NONE, 1, 1)


def test_any_broker_makes_topics_and_all_know_them(clients: list[Client]) -> None:
    for number, client in enumerate(clients):
        created(client, f"any-{number}")
        assert all(f"any-{number}" in names(one) for one in clients)


def test_settings_of_a_new_topic(client: Client) -> None:
    asked = topic("set", configs={"retention.ms": "1000", "cleanup.policy": "compact,delete"})
    (result,) = create(client, asked)
    configs = {one.name: one for one in result.configs or []}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1000", 1)
    assert configs["cleanup.policy"].value == "compact,delete"
    assert configs["segment.bytes"].config_source == 5


def test_an_assignment_is_taken_as_it_is(client: Client) -> None:
    (result,) = create(client, topic("placed", assignments={1: [0, 2], 0: [2, 1]}))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (Code.NONE, 2, 2)
    assert replicas(client, "placed") == [[2, 1], [0, 2]]
    assert leaders(client, "placed") == [2, 0]


REFUSED = [
    (topic("no/slash"), Code.INVALID_TOPIC_EXCEPTION),
    (topic(""), Code.INVALID_TOPIC_EXCEPTION),
    (topic(".."), Code.INVALID_TOPIC_EXCEPTION),
    (topic("x" * 250), Code.INVALID_TOPIC_EXCEPTION),
    (topic("col.lides"), Code.INVALID_TOPIC_EXCEPTION),
    (topic("r", 0), Code.INVALID_PARTITIONS),
    (topic("r", -2), Code.INVALID_PARTITIONS),
    (topic("r", 2_000_000_000), Code.INVALID_PARTITIONS),
    (topic("r", 1, 0), Code.INVALID_REPLICATION_FACTOR),
    (topic("r", 1, -2), Code.INVALID_REPLICATION_FACTOR),
    (topic("r", 1, 4), Code.INVALID_REPLICATION_FACTOR),
    (topic("r", assignments={0: [0], 2: [1]}), Code.INVALID_REPLICA_ASSIGNMENT),
    (topic("r", assignments={1: [0]}), Code.INVALID_REPLICA_ASSIGNMENT),
    (topic("r", assignments={0: [0], 1: [1, 2]}), Code.INVALID_REPLICA_ASSIGNMENT),
    (topic("r", assignments={0: [7]}), Code.INVALID_REPLICA_ASSIGNMENT),
    (topic("r", assignments={0: [1, 1]}), Code.INVALID_REPLICA_ASSIGNMENT),
    (topic("r", assignments={0: []}), Code.INVALID_REPLICA_ASSIGNMENT),
    (topic("r", configs={"retention.ms": "soon"}), Code.INVALID_CONFIG),
    (topic("r", configs={"retension.ms": "1"}), Code.INVALID_CONFIG),
    (topic("r", configs={"retention.ms": None}), Code.INVALID_CONFIG),
    (topic("__consumer_offsets", 3), Code.INVALID_PARTITIONS),
]


@pytest.mark.parametrize(
    ("asked", "error"), REFUSED, ids=[f"{error.name}-{at}" for at, (_, error) in enumerate(REFUSED)]
)
def test_what_is_not_made(client: Client, asked: CreateTopic, error: Code) -> None:
    if "col_lides" not in names(client):
        created(client, "col_lides")
    before = names(client)
    for validate_only in (True, False):
        (result,) = create(client, asked, validate_only=validate_only)
        assert result.error_code == error, result.error_message
        assert result.error_message
        assert result.configs == [], "clients of 3.9 do not expect null"
    assert names(client) == before


def test_counts_beside_an_assignment_are_refused(client: Client) -> None:
    for field in ("num_partitions", "replication_factor"):
        asked = topic("both", assignments={0: [0]})
        setattr(asked, field, 1)
        (result,) = create(client, asked)
        assert result.error_code == Code.INVALID_REQUEST
    twice = topic("both", assignments={0: [0]})
    twice.assignments *= 2
    (result,) = create(client, twice)
    assert result.error_code == Code.INVALID_REPLICA_ASSIGNMENT


def test_each_topic_of_a_request_stands_for_itself(client: Client) -> None:
    results = create(client, topic("one"), topic("twin"), topic("two", 0), topic("twin"), topic("three"))
    errors = {one.name: one.error_code for one in results}
    assert errors == {
        "one": Code.NONE,
        "twin": Code.INVALID_REQUEST,
        "two": Code.INVALID_PARTITIONS,
        "three": Code.NONE,
    }
    assert len(results) == 4
    assert {"one", "three"} <= names(client)
    assert "twin" not in names(client)


# --- grow -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_grow_in_every_version(client: Client, version: int) -> None:
    name = created(client, f"grown-{version}", 2)
    tried = grow(client, name, 4, version=version, validate_only=True)
    assert (tried.error_code, tried.error_message) == (Code.NONE, None)
    assert len(leaders(client, name)) == 2
    assert grow(client, name, 4, version=version).error_code == Code.NONE
    assert leaders(client, name) == [0, 1, 2, 0]
    produce(client, name, 1, partition=3)


def test_new_partitions_go_where_they_are_wanted(client: Client) -> None:
    create(client, topic("aimed", 1, 2))
    assert grow(client, "aimed", 3, [[2, 0], [1, 2]]).error_code == Code.NONE
    assert replicas(client, "aimed")[1:] == [[2, 0], [1, 2]]


@pytest.mark.parametrize(
    ("count", "assignments", "error"),
    [
        (2, None, Code.INVALID_PARTITIONS),
        (1, None, Code.INVALID_PARTITIONS),
        (-1, None, Code.INVALID_PARTITIONS),
        (20_000, None, Code.INVALID_PARTITIONS),
        (4, [[0]], Code.INVALID_REPLICA_ASSIGNMENT),
        (3, [[0, 1]], Code.INVALID_REPLICA_ASSIGNMENT),
        (3, [[9]], Code.INVALID_REPLICA_ASSIGNMENT),
        (3, [[]], Code.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_does_not_grow(
    client: Client, count: int, assignments: list[list[int]] | None, error: Code
) -> None:
    if "stays" not in names(client):
        created(client, "stays", 2)
    for validate_only in (True, False):
        result = grow(client, "stays", count, assignments, validate_only=validate_only)
        assert result.error_code == error
        assert result.error_message
    assert len(leaders(client, "stays")) == 2


def test_unknown_and_repeated_topics_do_not_grow(client: Client) -> None:
    assert grow(client, "nowhere", 2).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    created(client, "once")
    asked = CreatePartitionsTopic(name="once", count=2, assignments=None)
    (result,) = client.call(CreatePartitionsRequest(topics=[asked, asked])).results
    assert result.error_code == Code.INVALID_REQUEST
    assert len(leaders(client, "once")) == 1


# --- delete ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_delete_by_name_in_every_version(client: Client, version: int) -> None:
    name = created(client, f"gone-{version}", 2)
    produce(client, name, 1)
    response = client.call(DeleteTopicsRequest(topic_names=[name, "nowhere"]), version)
    errors = {one.name: one.error_code for one in response.responses}
    assert errors == {name: Code.NONE, "nowhere": Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert described(client, name).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    created(client, name)
    assert bound(client, name, LATEST) == 0, "the same name is a new topic"


def deleted(client: Client, *asked: DeleteTopic) -> list[DeletedTopic]:
    return client.call(DeleteTopicsRequest(topics=list(asked)), 6).responses


def test_delete_by_name_or_id(client: Client) -> None:
    created(client, "by-name")
    topic_id = described(client, created(client, "by-id")).topic_id
    results = deleted(client, DeleteTopic(name="by-name"), DeleteTopic(name=None, topic_id=topic_id))
    assert [(one.name, one.error_code) for one in results] == [("by-name", 0), ("by-id", 0)]
    assert results[1].topic_id == topic_id
    assert names(client).isdisjoint({"by-name", "by-id"})
    (again,) = deleted(client, DeleteTopic(name=None, topic_id=topic_id))
    assert (again.error_code, again.name) == (Code.UNKNOWN_TOPIC_ID, None)
    assert again.error_message


def test_a_topic_is_named_once_and_in_one_way(client: Client) -> None:
    topic_id = described(client, created(client, "kept")).topic_id
    for asked in (
        [DeleteTopic(name="kept", topic_id=topic_id)],
        [DeleteTopic(name=None)],
        [DeleteTopic(name="kept"), DeleteTopic(name="kept")],
        [DeleteTopic(name=None, topic_id=topic_id)] * 2,
        [DeleteTopic(name=None, topic_id=topic_id), DeleteTopic(name="kept")],
    ):
        assert {one.error_code for one in deleted(client, *asked)} == {Code.INVALID_REQUEST}
    assert "kept" in names(client)


def test_a_broker_may_forbid_deletion() -> None:
    with (
        EmbeddedBroker(properties={"delete.topic.enable": "false"}) as broker,
        Client.of(broker.bootstrap) as client,
    ):
        created(client, "safe")
        assert delete(client, "safe", version=2) == [Code.INVALID_REQUEST]
        assert delete(client, "safe", version=3) == [Code.TOPIC_DELETION_DISABLED]
        assert "safe" in names(client)


def test_offsets_of_a_deleted_topic_are_forgotten(tmp_path: Path) -> None:
    properties = {"offsets.topic.num.partitions": "4"}
    with EmbeddedBroker(tmp_path, properties=properties) as broker:
        with Client.of(broker.bootstrap) as client:
            client.call(FindCoordinatorRequest(key="g"), 1)
            for name in ("left", "right"):
                created(client, name)
                assert commit(client, "g", name, 7) == Code.NONE
            assert commit(client, "h", "left", 8) == Code.NONE
            assert delete(client, "left") == [Code.NONE]
            assert committed(client, "g") == {"right": 7}
            assert committed(client, "h") == {}
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            client.call(FindCoordinatorRequest(key="g"), 1)
            assert committed(client, "g") == {"right": 7}


def test_offsets_go_with_their_topic_at_every_coordinator(
    cluster: EmbeddedBroker, clients: list[Client]
) -> None:
    created(clients[0], "shared")
    coordinators = {}
    for group in ("a", "b", "c", "d", "e", "f"):
        found = clients[0].call(FindCoordinatorRequest(key=group), 1)
        coordinators[group] = clients[found.node_id]
        assert commit(coordinators[group], group, "shared", 1) == Code.NONE
    assert len({id(one) for one in coordinators.values()}) > 1
    assert delete(clients[1], "shared") == [Code.NONE]
    assert [committed(client, group) for group, client in coordinators.items()] == [{}] * 6


def test_without_the_offsets_topic_groups_begin_anew() -> None:
    with EmbeddedBroker() as broker, Client.of(broker.bootstrap) as client:
        client.call(FindCoordinatorRequest(key="g"), 1)
        created(client, "t")
        assert commit(client, "g", "t", 7) == Code.NONE
        assert delete(client, "__consumer_offsets") == [Code.NONE]
        assert commit(client, "g", "t", 8) == Code.NOT_COORDINATOR
        client.call(FindCoordinatorRequest(key="g"), 1)
        assert committed(client, "g") == {}
        assert commit(client, "g", "t", 9) == Code.NONE


def test_who_waits_for_records_is_told_that_the_topic_is_gone(clients: list[Client]) -> None:
    name = created(clients[0], "awaited")
    asked = [FetchTopic(topic=name, partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])]
    clients[0].send(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=asked), 4)
    assert delete(clients[1], name) == [Code.NONE]
    response = cast(FetchResponse, clients[0].receive())
    assert response.responses[0].partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


# --- on disk --------------------------------------------------------------------------------------------


def test_files_of_a_deleted_topic_go_after_the_delay(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker, Client.of(broker.bootstrap) as client:
        created(client, "quick", file_delete_delay_ms="0")
        produce(client, "quick", 1)
        assert delete(client, "quick") == [Code.NONE]
        wait_for(lambda: not list(tmp_path.glob("quick-0*")), "the directory goes")


def test_topics_deleted_at_once_keep_their_own_delays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each removal used to remove the directories of all deleted topics, and to fail on those of others."""
    with EmbeddedBroker(tmp_path) as broker, Client.of(broker.bootstrap) as client:
        quick = [created(client, f"quick{number}", 2, file_delete_delay_ms="0") for number in range(6)]
        created(client, "slow", file_delete_delay_ms="600000")
        assert set(delete(client, "slow", *quick)) == {Code.NONE}
        wait_for(lambda: not list(tmp_path.glob("quick*")), "the directories go")
        assert len(list(tmp_path.glob("slow-0*-delete"))) == 1
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_what_was_changed_survives_a_restart(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        with Client.of(broker.bootstrap) as client:
            created(client, "plain", 2)
            created(client, "tuned", retention_ms="1234")
            created(client, "grown", 1)
            created(client, "gone", 3)
            assert grow(client, "grown", 5).error_code == Code.NONE
            produce(client, "plain", 3, partition=1)
            ids = {name: described(client, name).topic_id for name in ("plain", "tuned", "grown")}
            assert delete(client, "gone") == [Code.NONE]
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            assert names(client) == {"plain", "tuned", "grown"}
            assert {name: described(client, name).topic_id for name in ids} == ids
            assert len(leaders(client, "grown")) == 5
            assert bound(client, "plain", LATEST, partition=1) == 3
            (result,) = create(client, topic("gone", 1), version=7)
            assert (result.error_code, result.num_partitions) == (Code.NONE, 1)
            assert not list(tmp_path.glob("gone-2"))


# --- a disk that fails ----------------------------------------------------------------------------------


def test_a_topic_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        with Client.of(broker.bootstrap) as client:
            (tmp_path / "bad-1").touch()  # in the place of a directory
            (result,) = create(client, topic("bad", 3))
            assert result.error_code == Code.KAFKA_STORAGE_ERROR
            assert "bad-1" in (result.error_message or "")
            assert names(client) == set()
        broker.stop()
        (tmp_path / "bad-1").unlink()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            assert names(client) == set()
            assert len(leaders(client, created(client, "bad", 3))) == 3


def test_a_topic_that_cannot_grow_stays_as_it_was(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        with Client.of(broker.bootstrap) as client:
            created(client, "t", 1)
            (tmp_path / "t-2").touch()
            assert grow(client, "t", 4).error_code == Code.KAFKA_STORAGE_ERROR
            assert leaders(client, "t") == [0]
            assert not (tmp_path / "t-1").exists()
            (tmp_path / "t-2").unlink()
            assert grow(client, "t", 4).error_code == Code.NONE
            produce(client, "t", 1, partition=1)
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            assert len(leaders(client, "t")) == 4
            assert bound(client, "t", LATEST, partition=1) == 1


def test_a_topic_that_cannot_be_deleted_goes_with_the_next_start(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        with Client.of(broker.bootstrap) as client:
            created(client, "t", 2)
            shutil.rmtree(tmp_path / "t-0")
            for _ in range(2):
                assert delete(client, "t") == [Code.KAFKA_STORAGE_ERROR]
                assert described(client, "t").error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
            (result,) = create(client, topic("t"))
            assert result.error_code == Code.TOPIC_ALREADY_EXISTS
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            assert names(client) == set()
            assert len(leaders(client, created(client, "t"))) == 1

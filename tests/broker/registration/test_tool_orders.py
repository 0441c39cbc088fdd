"""What tools ask for through ZooKeeper: topics, partitions, configs, leaders, other replicas."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.broker.registration.admin_nodes import NOTE_LIFE_S
from ottla.zookeeper.session import CreateMode
from ottla.zookeeper.zookeeper_errors import ZooKeeperConnectionLost
from tests.broker.registration.registered import Registered, play


def test_a_topic_that_a_tool_creates_is_made_with_its_partitions_and_config(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.settle()
        one.create("orders", [[1], [0], [0, 1]], {"retention.ms": "77", "nonsense": "1"})
        one.settle()
        topic = one.cluster.store.topic("orders")
        assert topic.replicas == ((1,), (0,), (0, 1))
        assert topic.overrides == {"retention.ms": "77"}
        assert [partition.leader for partition in one.cluster.store.partitions["orders"]] == [1, 0, 0]
        assert one.paths("/brokers/topics/orders/partitions")[1:] == [
            f"/brokers/topics/orders/partitions/{index}{rest}"
            for index in range(3)
            for rest in ("", "/state")
        ]

    play(tmp_path, scenario, brokers=2)


def test_a_partition_of_brokers_that_do_not_exist_has_no_leader_and_no_state(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.settle()
        one.create("orders", [[7], [7, 0]])
        one.settle()
        assert [partition.leader for partition in one.cluster.store.partitions["orders"]] == [-1, 0]
        assert one.tool.exists("/brokers/topics/orders/partitions/0") is None
        assert one.state("orders", 1) == {
            "version": 1,
            "leader": 0,
            "leader_epoch": 0,
            "controller_epoch": 1,
            "isr": [0],
        }
        assert one.data("/brokers/topics/orders") == {"version": 1, "partitions": {"0": [7], "1": [7, 0]}}

    play(tmp_path, scenario)


def test_partitions_that_a_tool_adds_are_added(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 1, 1, {})
        one.settle()
        one.write("/brokers/topics/orders", {"version": 1, "partitions": {"0": [0], "1": [0], "2": [0]}})
        one.settle()
        assert one.cluster.store.topic("orders").partition_count == 3
        assert one.tool.exists("/brokers/topics/orders/partitions/2/state") is not None

    play(tmp_path, scenario)


def test_an_assignment_that_somebody_spoils_is_put_right(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 2, 1, {})
        one.settle()
        right = one.data("/brokers/topics/orders")
        for wrong in ({"version": 1, "partitions": {"0": [0]}}, {"version": 1}, "no assignment"):
            one.write("/brokers/topics/orders", wrong)
            one.settle()
            assert one.data("/brokers/topics/orders") == right
        for path in reversed(one.paths("/brokers/topics/orders")):
            one.tool.delete(path)
        one.settle()
        assert one.data("/brokers/topics/orders") == right
        assert one.cluster.store.topic("orders").partition_count == 2

    play(tmp_path, scenario)


def test_a_topic_that_cannot_be_made_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("a.b", 1, 1, {})
        one.settle()
        one.create("a_b", [[0]])
        one.write("/brokers/topics/holes", {"version": 1, "partitions": {"0": [0], "2": [0]}})
        one.settle()
        one.create("fine", [[0]])
        one.settle()
        assert set(one.cluster.store.catalog.topics) == {"a.b", "fine"}

    with caplog.at_level(logging.ERROR):
        play(tmp_path, scenario)
    assert [("collides" in text, "not 0, 1, 2" in text) for text in caplog.messages] == [
        (True, False),
        (False, True),
    ]


def test_a_topic_that_is_marked_is_deleted_with_all_its_nodes(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 2, 1, {})
        one.settle()
        one.tool.create("/admin/delete_topics/orders")
        one.tool.create("/admin/delete_topics/unknown")
        one.settle()
        assert "orders" not in one.cluster.store.catalog.topics
        assert one.paths("/brokers/topics") == ["/brokers/topics"]
        assert one.paths("/config/topics") == ["/config/topics"]
        assert one.paths("/admin/delete_topics") == ["/admin/delete_topics"]

    play(tmp_path, scenario)


def test_deleting_can_be_forbidden_and_internal_topics_stay(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 1, 1, {})
        one.cluster.topics.find_or_create("__consumer_offsets")
        one.settle()
        one.tool.create("/admin/delete_topics/orders")
        one.tool.create("/admin/delete_topics/__consumer_offsets")
        one.settle()
        assert set(one.cluster.store.catalog.topics) == {"orders", "__consumer_offsets"}
        assert one.paths("/admin/delete_topics") == ["/admin/delete_topics"]
        assert one.tool.exists("/brokers/topics/orders") is not None

    play(tmp_path, scenario, delete_topic_enable="false")


def test_a_topic_that_is_deleted_here_goes_there_and_does_not_come_back(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 4, 1, {})
        one.settle()
        one.session.suspend()
        one.cluster.topics.delete("orders")
        with pytest.raises(ZooKeeperConnectionLost):
            one.settle()
        one.session.resume()
        one.settle()
        assert one.paths("/brokers/topics") == ["/brokers/topics"]
        assert "orders" not in one.cluster.store.catalog.topics

    play(tmp_path, scenario)


def test_a_topic_deleted_and_made_anew_is_another_topic(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 4, 1, {"retention.ms": "5"})
        one.settle()
        one.cluster.topics.delete("orders")
        await one.service.create_topic("orders", 2, 1, {})
        one.settle()
        assert one.cluster.store.topic("orders").partition_count == 2
        assert one.data("/brokers/topics/orders") == {"version": 1, "partitions": {"0": [0], "1": [0]}}
        assert one.tool.exists("/brokers/topics/orders/partitions/2") is None
        assert one.data("/config/topics/orders") == {"version": 1, "config": {}}

    play(tmp_path, scenario)


def test_configs_go_both_ways(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 1, 1, {})
        one.settle()
        one.write("/config/topics/orders", {"version": 1, "config": {"retention.ms": "5"}})
        one.settle()
        assert one.cluster.store.topic("orders").overrides == {}, "without a note nobody looks"
        one.note("orders")
        one.settle()
        assert one.cluster.store.topic("orders").overrides == {"retention.ms": "5"}
        one.cluster.topics.configure("orders", {"segment.bytes": "20000"})
        one.settle()
        assert one.data("/config/topics/orders") == {"version": 1, "config": {"segment.bytes": "20000"}}
        notes = one.tool.children("/config/changes")
        assert notes == ("config_change_0000000000", "config_change_0000000001")
        told = {"version": 1, "entity_type": "topics", "entity_name": "orders"}
        assert one.data(f"/config/changes/{notes[1]}") == told
        one.note("reader", entity="clients")
        one.note("nobody")
        one.tool.create("/config/changes/config_change_", b"{", CreateMode.PERSISTENT_SEQUENTIAL)
        one.settle()
        assert one.cluster.store.topic("orders").overrides == {"segment.bytes": "20000"}

    play(tmp_path, scenario)


def test_notes_of_config_changes_are_taken_away_in_the_end(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.settle()
        one.note("orders")
        one.settle()
        one.now_s += NOTE_LIFE_S
        one.tidy()
        assert len(one.tool.children("/config/changes")) == 1
        one.now_s += 1
        one.tidy()
        assert one.tool.children("/config/changes") == ()

    play(tmp_path, scenario)


def test_the_first_of_its_brokers_leads_a_partition_again(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 2, 2, {})
        await one.service.stop_broker(0)
        await one.service.start_broker(0)
        one.settle()
        assert one.cluster.store.partition("orders", 0).leader == 1
        wanted = [{"topic": "orders", "partition": index} for index in (0, 1, 9)]
        one.write("/admin/preferred_replica_election", {"version": 1, "partitions": wanted})
        one.settle()
        assert one.cluster.store.partition("orders", 0).leader == 0
        assert one.tool.exists("/admin/preferred_replica_election") is None
        assert one.data("/brokers/topics/orders/partitions/0/state")["leader"] == 0  # type: ignore[index]
        one.write("/admin/preferred_replica_election", "nonsense")
        one.settle()
        assert one.tool.exists("/admin/preferred_replica_election") is None

    play(tmp_path, scenario, brokers=2)


def test_a_partition_is_given_to_other_brokers(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 2, 1, {})
        one.settle()
        wanted = [
            {"topic": "orders", "partition": 0, "replicas": [1]},
            {"topic": "orders", "partition": 1, "replicas": [7]},
            {"topic": "unknown", "partition": 1, "replicas": [1]},
        ]
        one.write("/admin/reassign_partitions", {"version": 1, "partitions": wanted})
        one.settle()
        assert one.tool.exists("/admin/reassign_partitions") is None
        assert one.data("/brokers/topics/orders") == {"version": 1, "partitions": {"0": [1], "1": [1]}}
        assert one.cluster.store.partition("orders", 0).leader == 1
        assert one.cluster.store.topic("orders").replicas == ((1,), (1,))

    play(tmp_path, scenario, brokers=2)

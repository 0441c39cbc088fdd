"""What the registrar publishes of the brokers and their topics."""

from __future__ import annotations

from pathlib import Path

from tests.broker.registration.registered import Registered, play
from tests.broker.registration.znodes import tree


def test_brokers_and_controller_are_ephemeral_and_the_roots_are_there(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.settle()
        found = tree(one.tool)
        ephemerals = [
            path for path, node in found.items() if node.stat.ephemeral_owner == one.session.session_id
        ]
        assert ephemerals == ["/brokers/ids/0", "/brokers/ids/1", "/controller"]
        port = one.service.nodes[1].ports[0]
        assert one.data("/brokers/ids/1") == {
            "version": 2,
            "host": "127.0.0.1",
            "port": port,
            "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"],
            "jmx_port": -1,
            "timestamp": "1234",
        }
        assert one.data("/controller") == {"version": 1, "brokerid": 0, "timestamp": "1234"}
        assert one.tool.get("/controller_epoch").data == b"1"
        assert one.data("/cluster/id") == {"version": "1", "id": one.cluster.store.cluster_id}
        for path in ("/consumers", "/brokers/seqid", "/admin/delete_topics", "/isr_change_notification"):
            assert path in found
        for path in ("/config/topics", "/config/changes", "/config/clients"):
            assert path in found

    play(tmp_path, scenario, brokers=2)


def test_a_topic_of_this_broker_is_written_whole(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 2, 2, {"retention.ms": "1000"})
        one.settle()
        assert one.data("/brokers/topics/orders") == {"version": 1, "partitions": {"0": [0, 1], "1": [1, 0]}}
        assert one.data("/config/topics/orders") == {"version": 1, "config": {"retention.ms": "1000"}}
        state = {"version": 1, "leader": 1, "leader_epoch": 0, "controller_epoch": 1, "isr": [1, 0]}
        assert one.state("orders", 1) == state

    play(tmp_path, scenario, brokers=2)


def test_states_follow_a_broker_that_goes_and_comes_back(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 2, 1, {})
        one.settle()
        await one.service.stop_broker(0)
        one.settle()
        assert one.tool.exists("/brokers/ids/0") is None
        assert one.data("/controller") == {"version": 1, "brokerid": 1, "timestamp": "1234"}
        lost = {"version": 1, "leader": -1, "leader_epoch": 1, "controller_epoch": 2, "isr": [0]}
        assert one.state("orders", 0) == lost
        await one.service.start_broker(0)
        one.settle()
        assert one.tool.exists("/brokers/ids/0") is not None
        back = {"version": 1, "leader": 0, "leader_epoch": 2, "controller_epoch": 3, "isr": [0]}
        assert one.state("orders", 0) == back
        untouched = {"version": 1, "leader": 1, "leader_epoch": 0, "controller_epoch": 1, "isr": [1]}
        assert one.state("orders", 1) == untouched

    play(tmp_path, scenario, brokers=2)


def test_a_moved_leader_is_the_first_of_its_brokers(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 1, 2, {})
        one.settle()
        one.service.move_leader("orders", 0, 1)
        one.settle()
        assert one.data("/brokers/topics/orders") == {"version": 1, "partitions": {"0": [1, 0]}}
        assert one.state("orders", 0) == {
            "version": 1,
            "leader": 1,
            "leader_epoch": 1,
            "controller_epoch": 1,
            "isr": [1, 0],
        }

    play(tmp_path, scenario, brokers=2)

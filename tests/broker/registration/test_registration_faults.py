"""Lost sessions and answers, foreign nodes, other clusters: the registrar puts it right, or refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.registration.broker_nodes import Conflict
from ottla.model.errors import ConfigError
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper
from ottla.zookeeper.session import CreateMode
from ottla.zookeeper.zookeeper_errors import SessionLost, ZooKeeperConnectionLost
from tests.broker.registration.registered import Registered, play
from tests.broker.registration.znodes import tree


def test_a_new_session_registers_everything_anew(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 1, 1, {})
        one.settle()
        one.reset_session()
        assert one.tool.exists("/brokers/ids/0") is None
        one.settle()
        stat = one.tool.exists("/brokers/ids/0")
        assert stat is not None
        assert stat.ephemeral_owner == one.session.session_id
        assert one.tool.get("/controller_epoch").data == b"2"
        one.create("more", [[0]])
        one.settle()
        assert "more" in one.cluster.store.catalog.topics, "watches were set again"

    play(tmp_path, scenario)


def test_a_cut_connection_sets_watches_again(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 1, 1, {})
        one.settle()
        one.session.suspend()
        with pytest.raises(ZooKeeperConnectionLost):
            one.settle()
        one.create("more", [[0]])
        one.write("/brokers/topics/orders", {"version": 1, "partitions": {"0": [0], "1": [0]}})
        one.session.resume()
        one.settle()
        assert one.cluster.store.topic("orders").partition_count == 2
        assert "more" in one.cluster.store.catalog.topics
        assert one.tool.get("/controller_epoch").data == b"1"

    play(tmp_path, scenario)


def test_any_lost_answer_costs_only_a_repetition(tmp_path: Path) -> None:
    """Every operation of a busy turn loses its answer in one of the runs; the outcome is the same."""

    async def scenario(one: Registered) -> None:
        await one.service.create_topic("here", 2, 1, {"retention.ms": "5"})
        one.create("there", [[0], [0]], {"retention.ms": "6"})
        one.settle()
        expected = _but_for_epochs(one.tool)
        for lost_at in range(200):
            again = Registered(one.service, MemoryZooKeeper())
            again.create("there", [[0], [0]], {"retention.ms": "6"})
            left = _lose_answer(again.session, lost_at)
            for _ in range(10):
                try:
                    again.settle()
                    break
                except (ZooKeeperConnectionLost, SessionLost):
                    again.session.resume()
                    again.now_ms += 1
            again.settle()
            assert _but_for_epochs(again.tool) == expected, lost_at
            if left() > 0:
                return
        pytest.fail("the turn never ended")

    play(tmp_path, scenario)


def _but_for_epochs(session: MemorySession) -> dict[str, bytes]:
    """The tree; who did not hear of its election or registration repeats it, later."""
    epoch = re.compile(rb'"(controller_epoch":|timestamp":")[0-9]+')
    found = {path: epoch.sub(b"", node.data) for path, node in tree(session).items()}
    del found["/controller_epoch"]
    return found


def _lose_answer(session: MemorySession, at: int) -> Callable[[], int]:
    left = at
    perform = session._perform

    def counted(action: Callable[[], object]) -> object:
        nonlocal left
        if left == 0:
            session.lose_next_answer()
        left -= 1
        return perform(action)

    session._perform = counted  # type: ignore[method-assign, assignment]
    return lambda: left


def test_the_controller_that_somebody_deletes_is_elected_anew(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.settle()
        for epoch in (b"2", b"3"):
            one.tool.delete("/controller")
            one.settle()
            assert one.tool.exists("/controller") is not None
            assert one.tool.get("/controller_epoch").data == epoch

    play(tmp_path, scenario)


@pytest.mark.parametrize("path", ["/brokers/ids/0", "/controller"])
def test_a_node_of_another_session_is_a_conflict_until_it_goes(tmp_path: Path, path: str) -> None:
    async def scenario(one: Registered) -> None:
        other = {
            "/brokers/ids/0": {
                "version": 1,
                "host": "elsewhere",
                "port": 9,
                "jmx_port": -1,
                "timestamp": "1",
            },
            "/controller": {"version": 1, "brokerid": 5, "timestamp": "1"},
        }
        one.tool.create_with_parents(path, json.dumps(other[path]).encode(), CreateMode.EPHEMERAL)
        with pytest.raises(Conflict, match=f"{path} in ZooKeeper belongs to .*(elsewhere:9|broker 5)"):
            one.settle()
        one.tool.delete(path)
        assert one.has_work(), "its going is told"
        one.settle()
        stat = one.tool.exists(path)
        assert stat is not None
        assert stat.ephemeral_owner == one.session.session_id

    play(tmp_path, scenario)


def test_an_empty_data_directory_joins_the_cluster_of_zookeeper(tmp_path: Path) -> None:
    ensemble = MemoryZooKeeper()
    ids = []

    async def scenario(one: Registered) -> None:
        one.settle()
        ids.append(one.cluster.store.cluster_id)
        await one.service.create_topic(f"topic-{len(ids)}", 1, 1, {})
        one.settle()
        one.session.close()

    play(tmp_path / "a", scenario, ensemble=ensemble)
    play(tmp_path / "b", scenario, ensemble=ensemble)
    play(tmp_path / "b", scenario, ensemble=ensemble)
    assert len(set(ids)) == 1

    async def joined(one: Registered) -> None:
        one.settle()
        assert set(one.cluster.store.catalog.topics) == {"topic-1", "topic-2", "topic-3"}

    play(tmp_path / "b", joined, ensemble=ensemble)


def test_a_data_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 1, 1, {})
        one.write("/cluster/id", {"version": "1", "id": "another"})
        with pytest.raises(
            ConfigError, match=r"belongs to cluster .* to cluster another.*zookeeper\.connect"
        ):
            one.settle()

    play(tmp_path, scenario)


def test_a_start_publishes_what_is_missing_and_takes_what_tools_did_meanwhile(tmp_path: Path) -> None:
    ensemble = MemoryZooKeeper()

    async def first(one: Registered) -> None:
        for name in ("grown", "configured", "deleted", "vanished"):
            await one.service.create_topic(name, 1, 1, {})
        one.settle()
        one.session.close()

    async def second(one: Registered) -> None:
        one.write("/brokers/topics/grown", {"version": 1, "partitions": {"0": [0], "1": [0]}})
        one.write("/config/topics/configured", {"version": 1, "config": {"retention.ms": "5"}})
        one.note("configured")
        one.tool.create("/admin/delete_topics/deleted")
        for path in reversed(one.paths("/brokers/topics/vanished")):
            one.tool.delete(path)
        one.create("created", [[0]])
        one.settle()
        catalog = one.cluster.store.catalog.topics
        assert set(catalog) == {"grown", "configured", "vanished", "created"}
        assert catalog["grown"].partition_count == 2
        assert catalog["configured"].overrides == {"retention.ms": "5"}
        assert one.tool.exists("/brokers/topics/vanished/partitions/0/state") is not None
        assert one.tool.exists("/brokers/topics/deleted") is None

    play(tmp_path, first, ensemble=ensemble)
    play(tmp_path, second, ensemble=ensemble)


def test_a_topic_that_a_newer_tool_wrote_keeps_its_id(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.settle()
        written = {
            "version": 3,
            "topic_id": "AAAAAAAAAAAAAAAAAAAAKg",
            "partitions": {"0": [0]},
            "adding_replicas": {},
            "removing_replicas": {},
        }
        one.write("/brokers/topics/orders", written)
        one.settle()
        assert one.cluster.store.topic("orders").topic_id == bytes(15) + b"*"
        one.cluster.topics.grow("orders", [(0,)])
        one.settle()
        assert one.data("/brokers/topics/orders") == written | {"partitions": {"0": [0], "1": [0]}}

    play(tmp_path, scenario)


def test_many_changes_leave_one_watch(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        await one.service.create_topic("orders", 1, 2, {})
        one.settle()
        before = one.session.watch_count
        for turn in range(20):
            one.service.move_leader("orders", 0, (turn + 1) % 2)
            one.settle()
        assert one.session.watch_count == before

    play(tmp_path, scenario, brokers=2)

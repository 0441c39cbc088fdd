"""What the registrar does to ZooKeeper and to the brokers, turn by turn, with ZooKeeper in memory."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.registration.znodes import tree
from ottla.broker import topics
from ottla.broker.cluster import Cluster
from ottla.broker.config import BrokerConfig
from ottla.broker.registration.admin_nodes import NOTE_LIFE_S
from ottla.broker.registration.broker_nodes import Conflict
from ottla.broker.registration.flags import Flags
from ottla.broker.registration.orders import Order, carry_out
from ottla.broker.registration.registrar import Registrar
from ottla.broker.registration.view import ClusterView, cluster_view
from ottla.broker.service import BrokerService
from ottla.model.errors import ConfigError
from ottla.zookeeper.errors import ConnectionLost, SessionLost
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper
from ottla.zookeeper.session import CreateMode


class Registered:
    """Brokers of a loop and their registrar on the same thread; `settle` is a turn of the real thread."""

    def __init__(self, service: BrokerService, ensemble: MemoryZooKeeper) -> None:
        self.service = service
        self.ensemble = ensemble
        self.now_s = 0.0
        self.now_ms = 1234
        self.session = ensemble.session()
        self.session.connect()
        self.tool = ensemble.session()
        self.tool.connect()
        self._flags = Flags()
        cluster = service.cluster
        cluster.leader_listeners.append(lambda partition, _: self._flags.raise_topic(partition.topic))
        cluster.topic_listeners.append(self._flags.raise_topic)
        cluster.node_listeners.append(self._flags.raise_brokers)
        self._flags.raise_brokers()
        self._registrar = Registrar(
            self.session, self, self._flags, cluster.cluster_id, lambda: self.now_ms, lambda: self.now_s
        )

    @property
    def cluster(self) -> Cluster:
        return self.service.cluster

    def view(self, names: set[str] | None) -> ClusterView:
        return cluster_view(self.cluster, names)

    def carry_out(self, order: Order) -> None:
        carry_out(self.cluster, order)

    def settle(self) -> None:
        self._registrar.work()

    def tidy(self) -> None:
        self._registrar.tidy()
        self.settle()

    def has_work(self) -> bool:
        return bool(self._flags.take())

    def data(self, path: str) -> object:
        return json.loads(self.tool.get(path).data)

    def paths(self, top: str) -> list[str]:
        return list(tree(self.tool, top))

    def state(self, topic: str, partition: int) -> object:
        return self.data(f"/brokers/topics/{topic}/partitions/{partition}/state")

    def write(self, path: str, value: object) -> None:
        """As a tool would."""
        data = json.dumps(value).encode()
        if self.tool.exists(path) is None:
            self.tool.create_with_parents(path, data)
        else:
            self.tool.set(path, data)

    def create(self, name: str, replicas: list[list[int]], config: dict[str, str] | None = None) -> None:
        """As TopicCommand --create does: config first."""
        self.write(f"/config/topics/{name}", {"version": 1, "config": config or {}})
        partitions = {str(index): brokers for index, brokers in enumerate(replicas)}
        self.write(f"/brokers/topics/{name}", {"version": 1, "partitions": partitions})

    def note(self, name: str, entity: str = "topics") -> str:
        data = json.dumps({"version": 1, "entity_type": entity, "entity_name": name}).encode()
        return self.tool.create("/config/changes/config_change_", data, CreateMode.PERSISTENT_SEQUENTIAL)

    def reset_session(self) -> None:
        self.session.expire()
        self.session.resume()
        self.session.resume()


Scenario = Callable[[Registered], Awaitable[None]]


def play(
    path: Path,
    scenario: Scenario,
    brokers: int = 1,
    ensemble: MemoryZooKeeper | None = None,
    **properties: str,
) -> None:
    given = {"log.dir": str(path / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"}
    given |= {name.replace("_", "."): value for name, value in properties.items()}

    async def run() -> None:
        service = BrokerService(BrokerConfig.from_properties(given), brokers)
        await service.start()
        try:
            await scenario(Registered(service, ensemble or MemoryZooKeeper()))
        finally:
            await service.stop()

    asyncio.run(run())


def test_brokers_and_controller_are_ephemeral_and_the_roots_are_there(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.settle()
        found = tree(one.tool)
        ephemerals = [
            path for path, node in found.items() if node.stat.ephemeral_owner == one.session.session_id
        ]
        assert ephemerals == ["/brokers/ids/0", "/brokers/ids/1", "/controller"]
        port = one.service.nodes[1].port
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
        assert one.data("/cluster/id") == {"version": "1", "id": one.cluster.cluster_id}
        for path in ("/consumers", "/brokers/seqid", "/admin/delete_topics", "/isr_change_notification"):
            assert path in found
        for path in ("/config/topics", "/config/changes", "/config/clients"):
            assert path in found

    play(tmp_path, scenario, brokers=2)


def test_a_topic_of_this_broker_is_written_whole(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 2, 2, {"retention.ms": "1000"})
        one.settle()
        assert one.data("/brokers/topics/orders") == {"version": 1, "partitions": {"0": [0, 1], "1": [1, 0]}}
        assert one.data("/config/topics/orders") == {"version": 1, "config": {"retention.ms": "1000"}}
        state = {"version": 1, "leader": 1, "leader_epoch": 0, "controller_epoch": 1, "isr": [1, 0]}
        assert one.state("orders", 1) == state

    play(tmp_path, scenario, brokers=2)


def test_states_follow_a_broker_that_goes_and_comes_back(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 2, 1, {})
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
        one.service.create_topic("orders", 1, 2, {})
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


def test_a_topic_that_a_tool_creates_is_made_with_its_partitions_and_config(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.settle()
        one.create("orders", [[1], [0], [0, 1]], {"retention.ms": "77", "nonsense": "1"})
        one.settle()
        topic = one.cluster.topic("orders")
        assert topic.replicas == ((1,), (0,), (0, 1))
        assert topic.overrides == {"retention.ms": "77"}
        assert [partition.leader for partition in one.cluster.partitions["orders"]] == [1, 0, 0]
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
        assert [partition.leader for partition in one.cluster.partitions["orders"]] == [-1, 0]
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
        one.service.create_topic("orders", 1, 1, {})
        one.settle()
        one.write("/brokers/topics/orders", {"version": 1, "partitions": {"0": [0], "1": [0], "2": [0]}})
        one.settle()
        assert one.cluster.topic("orders").partition_count == 3
        assert one.tool.exists("/brokers/topics/orders/partitions/2/state") is not None

    play(tmp_path, scenario)


def test_an_assignment_that_somebody_spoils_is_put_right(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 2, 1, {})
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
        assert one.cluster.topic("orders").partition_count == 2

    play(tmp_path, scenario)


def test_a_topic_that_cannot_be_made_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("a.b", 1, 1, {})
        one.settle()
        one.create("a_b", [[0]])
        one.write("/brokers/topics/holes", {"version": 1, "partitions": {"0": [0], "2": [0]}})
        one.settle()
        one.create("fine", [[0]])
        one.settle()
        assert set(one.cluster.catalog.topics) == {"a.b", "fine"}

    with caplog.at_level(logging.ERROR):
        play(tmp_path, scenario)
    assert [("collides" in text, "not 0, 1, 2" in text) for text in caplog.messages] == [
        (True, False),
        (False, True),
    ]


def test_a_topic_that_is_marked_is_deleted_with_all_its_nodes(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 2, 1, {})
        one.settle()
        one.tool.create("/admin/delete_topics/orders")
        one.tool.create("/admin/delete_topics/unknown")
        one.settle()
        assert "orders" not in one.cluster.catalog.topics
        assert one.paths("/brokers/topics") == ["/brokers/topics"]
        assert one.paths("/config/topics") == ["/config/topics"]
        assert one.paths("/admin/delete_topics") == ["/admin/delete_topics"]

    play(tmp_path, scenario)


def test_deleting_can_be_forbidden_and_internal_topics_stay(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 1, 1, {})
        topics.create_offsets_topic(one.cluster)
        one.settle()
        one.tool.create("/admin/delete_topics/orders")
        one.tool.create("/admin/delete_topics/__consumer_offsets")
        one.settle()
        assert set(one.cluster.catalog.topics) == {"orders", "__consumer_offsets"}
        assert one.paths("/admin/delete_topics") == ["/admin/delete_topics"]
        assert one.tool.exists("/brokers/topics/orders") is not None

    play(tmp_path, scenario, delete_topic_enable="false")


def test_a_topic_that_is_deleted_here_goes_there_and_does_not_come_back(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 4, 1, {})
        one.settle()
        one.session.suspend()
        topics.delete(one.cluster, "orders")
        with pytest.raises(ConnectionLost):
            one.settle()
        one.session.resume()
        one.settle()
        assert one.paths("/brokers/topics") == ["/brokers/topics"]
        assert "orders" not in one.cluster.catalog.topics

    play(tmp_path, scenario)


def test_a_topic_deleted_and_made_anew_is_another_topic(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 4, 1, {"retention.ms": "5"})
        one.settle()
        topics.delete(one.cluster, "orders")
        one.service.create_topic("orders", 2, 1, {})
        one.settle()
        assert one.cluster.topic("orders").partition_count == 2
        assert one.data("/brokers/topics/orders") == {"version": 1, "partitions": {"0": [0], "1": [0]}}
        assert one.tool.exists("/brokers/topics/orders/partitions/2") is None
        assert one.data("/config/topics/orders") == {"version": 1, "config": {}}

    play(tmp_path, scenario)


def test_configs_go_both_ways(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 1, 1, {})
        one.settle()
        one.write("/config/topics/orders", {"version": 1, "config": {"retention.ms": "5"}})
        one.settle()
        assert one.cluster.topic("orders").overrides == {}, "without a note nobody looks"
        one.note("orders")
        one.settle()
        assert one.cluster.topic("orders").overrides == {"retention.ms": "5"}
        topics.configure(one.cluster, "orders", {"segment.bytes": "20000"})
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
        assert one.cluster.topic("orders").overrides == {"segment.bytes": "20000"}

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
        one.service.create_topic("orders", 2, 2, {})
        await one.service.stop_broker(0)
        await one.service.start_broker(0)
        one.settle()
        assert one.cluster.partition("orders", 0).leader == 1
        wanted = [{"topic": "orders", "partition": index} for index in (0, 1, 9)]
        one.write("/admin/preferred_replica_election", {"version": 1, "partitions": wanted})
        one.settle()
        assert one.cluster.partition("orders", 0).leader == 0
        assert one.tool.exists("/admin/preferred_replica_election") is None
        assert one.data("/brokers/topics/orders/partitions/0/state")["leader"] == 0  # type: ignore[index]
        one.write("/admin/preferred_replica_election", "nonsense")
        one.settle()
        assert one.tool.exists("/admin/preferred_replica_election") is None

    play(tmp_path, scenario, brokers=2)


def test_a_partition_is_given_to_other_brokers(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 2, 1, {})
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
        assert one.cluster.partition("orders", 0).leader == 1
        assert one.cluster.topic("orders").replicas == ((1,), (1,))

    play(tmp_path, scenario, brokers=2)


def test_a_new_session_registers_everything_anew(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 1, 1, {})
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
        assert "more" in one.cluster.catalog.topics, "watches were set again"

    play(tmp_path, scenario)


def test_a_cut_connection_sets_watches_again(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 1, 1, {})
        one.settle()
        one.session.suspend()
        with pytest.raises(ConnectionLost):
            one.settle()
        one.create("more", [[0]])
        one.write("/brokers/topics/orders", {"version": 1, "partitions": {"0": [0], "1": [0]}})
        one.session.resume()
        one.settle()
        assert one.cluster.topic("orders").partition_count == 2
        assert "more" in one.cluster.catalog.topics
        assert one.tool.get("/controller_epoch").data == b"1"

    play(tmp_path, scenario)


def test_any_lost_answer_costs_only_a_repetition(tmp_path: Path) -> None:
    """Every operation of a busy turn loses its answer in one of the runs; the outcome is the same."""

    async def scenario(one: Registered) -> None:
        one.service.create_topic("here", 2, 1, {"retention.ms": "5"})
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
                except (ConnectionLost, SessionLost):
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
        ids.append(one.cluster.cluster_id)
        one.service.create_topic(f"topic-{len(ids)}", 1, 1, {})
        one.settle()
        one.session.close()

    play(tmp_path / "a", scenario, ensemble=ensemble)
    play(tmp_path / "b", scenario, ensemble=ensemble)
    play(tmp_path / "b", scenario, ensemble=ensemble)
    assert len(set(ids)) == 1

    async def joined(one: Registered) -> None:
        one.settle()
        assert set(one.cluster.catalog.topics) == {"topic-1", "topic-2", "topic-3"}

    play(tmp_path / "b", joined, ensemble=ensemble)


def test_a_data_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 1, 1, {})
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
            one.service.create_topic(name, 1, 1, {})
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
        catalog = one.cluster.catalog.topics
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
        assert one.cluster.topic("orders").topic_id == bytes(15) + b"*"
        topics.grow(one.cluster, "orders", [(0,)])
        one.settle()
        assert one.data("/brokers/topics/orders") == written | {"partitions": {"0": [0], "1": [0]}}

    play(tmp_path, scenario)


def test_many_changes_leave_one_watch(tmp_path: Path) -> None:
    async def scenario(one: Registered) -> None:
        one.service.create_topic("orders", 1, 2, {})
        one.settle()
        before = len(one.session._data_watches)
        for turn in range(20):
            one.service.move_leader("orders", 0, (turn + 1) % 2)
            one.settle()
        assert len(one.session._data_watches) == before

    play(tmp_path, scenario, brokers=2)

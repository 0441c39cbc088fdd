"""Brokers and a real ZooKeeper: starting, stopping, losing each other, finding each other again."""

from __future__ import annotations

import json
import logging
import socket
import threading
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.registration.broker_nodes import Conflict
from ottla.wire.api.create_topics import CreateTopic, CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.server import ZooKeeperServer
from ottla.zookeeper.session import CreateMode
from ottla.zookeeper.zookeeper_errors import ZooKeeperConnectionLost
from tests.broker.registration.znodes import WAIT_S, await_gone, await_node, tree
from tests.broker.wire_client import Client

STATE = "/brokers/topics/{}/partitions/{}/state"


def broker_at(connect: str, data_dir: Path | None = None, *, brokers: int = 1, **more: str) -> EmbeddedBroker:
    properties = {"zookeeper.connect": connect, "zookeeper.session.timeout.ms": "4000"}
    properties |= {name.replace("_", "."): value for name, value in more.items()}
    return EmbeddedBroker(data_dir, brokers=brokers, properties=properties)


def test_brokers_are_registered_when_start_returns_and_gone_when_stop_does(
    connect: str, zookeeper: KazooZooKeeperSession
) -> None:
    with broker_at(connect, brokers=2) as broker:
        assert zookeeper.children("/brokers/ids") == ("0", "1")
        hosts = [
            "{host}:{port}".format(**json.loads(zookeeper.get(f"/brokers/ids/{index}").data))
            for index in (0, 1)
        ]
        assert ",".join(hosts) == broker.bootstrap
        broker.create_topic("orders", 2)
        await_node(zookeeper, STATE.format("orders", 1))
    assert zookeeper.children("/brokers/ids") == ()
    assert zookeeper.exists("/controller") is None
    assert json.loads(zookeeper.get(STATE.format("orders", 1)).data)["leader"] == 1


def test_topics_of_admin_clients_come_and_go(connect: str, zookeeper: KazooZooKeeperSession) -> None:
    with broker_at(connect) as broker, Client.of(broker.bootstrap) as client:
        made = CreateTopic(name="orders", num_partitions=3, replication_factor=1)
        client.call(CreateTopicsRequest(topics=[made], timeout_ms=1000), 4)
        await_node(zookeeper, STATE.format("orders", 2))
        client.call(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 4)
        await_gone(zookeeper, "/config/topics/orders")
        assert zookeeper.exists("/brokers/topics/orders") is None


def test_topics_that_tools_create_are_served(connect: str, zookeeper: KazooZooKeeperSession) -> None:
    with broker_at(connect) as broker, Client.of(broker.bootstrap) as client:
        zookeeper.create("/brokers/topics/orders", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')
        await_node(zookeeper, STATE.format("orders", 1))
        answer = client.call(MetadataRequest(topics=[MetadataTopic(name="orders")]), 1)
        assert [one.leader_id for one in answer.topics[0].partitions] == [0, 0]


def test_stopped_and_started_brokers_are_seen(connect: str, zookeeper: KazooZooKeeperSession) -> None:
    with broker_at(connect, brokers=3) as broker:
        broker.create_topic("orders", 3, replication_factor=2)
        broker.stop_broker(1)
        await_gone(zookeeper, "/brokers/ids/1")
        await_node(zookeeper, STATE.format("orders", 1), lambda data: json.loads(data)["leader"] == 2)
        broker.start_broker(1)
        await_node(zookeeper, "/brokers/ids/1")
        await_node(zookeeper, STATE.format("orders", 1), lambda data: json.loads(data)["isr"] == [1, 2])


def test_a_lost_session_is_replaced_and_everything_registered_anew(
    connect: str, zookeeper: KazooZooKeeperSession, zookeeper_server: ZooKeeperServer
) -> None:
    with broker_at(connect, brokers=2) as broker:
        broker.create_topic("orders")
        await_node(zookeeper, STATE.format("orders", 0))
        service = broker._running()
        assert service.zookeeper is not None
        session = service.zookeeper._session
        assert isinstance(session, KazooZooKeeperSession)
        lost = session.session_id
        # Whoever has id and password can take a session over, and end it.
        thief = KazooClient(hosts=zookeeper_server.connect, client_id=session.credentials)
        thief.start(WAIT_S)
        thief.stop()
        thief.close()
        await_node(zookeeper, "/controller_epoch", lambda data: data == b"2")
        for path in ("/brokers/ids/0", "/brokers/ids/1", "/controller"):
            assert await_node(zookeeper, path).stat.ephemeral_owner not in {0, lost}
        zookeeper.create("/brokers/topics/more", b'{"version":1,"partitions":{"0":[0]}}')
        await_node(zookeeper, STATE.format("more", 0))


def test_brokers_serve_on_while_zookeeper_is_away(
    connect: str,
    zookeeper: KazooZooKeeperSession,
    zookeeper_server: ZooKeeperServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        broker_at(connect) as broker,
        Client.of(broker.bootstrap) as client,
    ):
        broker.create_topic("deleted")
        await_node(zookeeper, STATE.format("deleted", 0))
        zookeeper_server.stop()
        try:
            broker.create_topic("made", 2)
            client.call(DeleteTopicsRequest(topic_names=["deleted"], timeout_ms=1000), 4)
            answer = client.call(MetadataRequest(topics=[MetadataTopic(name="made")]), 1)
            assert [one.leader_id for one in answer.topics[0].partitions] == [0, 0]
        finally:
            zookeeper_server.start()
        with KazooZooKeeperSession(KazooSettings(connect, connection_timeout_ms=20_000)) as session:
            await_node(session, STATE.format("made", 1))
            await_gone(session, "/brokers/topics/deleted")
            await_node(session, "/brokers/ids/0")
    told = [text for text in caplog.messages if "ZooKeeper is" in text]
    assert len(told) == 2, told
    assert "the brokers serve on" in told[0]


def test_stopping_while_zookeeper_hangs_does_not_hang(
    connect: str, zookeeper: KazooZooKeeperSession, zookeeper_server: ZooKeeperServer
) -> None:
    broker = broker_at(connect).start()
    stopper = threading.Thread(target=broker.close)
    zookeeper_server.pause()
    try:
        broker.create_topic("orders")
        stopper.start()
        stopper.join(WAIT_S)
        assert not stopper.is_alive()
    finally:
        zookeeper_server.resume()
    with KazooZooKeeperSession(KazooSettings(connect, connection_timeout_ms=20_000)) as session:
        await_gone(session, "/brokers/ids/0")


def test_stopping_while_zookeeper_is_away_does_not_hang(
    connect: str, zookeeper_server: ZooKeeperServer
) -> None:
    broker = broker_at(connect).start()
    stopper = threading.Thread(target=broker.close)
    zookeeper_server.stop()
    try:
        stopper.start()
        stopper.join(WAIT_S)
        assert not stopper.is_alive()
    finally:
        zookeeper_server.start()


def test_a_start_without_zookeeper_fails_in_time_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        connect = f"127.0.0.1:{silent.getsockname()[1]}"
        broker = broker_at(connect, tmp_path, zookeeper_connection_timeout_ms="300")
        with pytest.raises(ZooKeeperConnectionLost, match=rf"at {connect} answered within 300 ms"):
            broker.start()
    names = {thread.name for thread in threading.enumerate()}
    assert not {name for name in names if name.startswith("ottla-")}
    with EmbeddedBroker(tmp_path) as another:
        assert another.port


def test_a_broker_that_crashed_waits_for_its_session_to_end(
    connect: str, zookeeper: KazooZooKeeperSession, tmp_path: Path
) -> None:
    left = b'{"version":2,"host":"127.0.0.1","port":1,"endpoints":["PLAINTEXT://127.0.0.1:1"],"jmx_port":-1,"timestamp":"1"}'
    former = KazooZooKeeperSession(KazooSettings(connect, connection_timeout_ms=20_000))
    former.connect()
    former.create_with_parents("/brokers/ids/0", left, CreateMode.EPHEMERAL)
    broker = broker_at(connect, tmp_path)
    starter = threading.Thread(target=broker.start)
    starter.start()
    await_node(zookeeper, "/cluster/id")
    former.close()
    starter.join(WAIT_S)
    try:
        assert json.loads(zookeeper.get("/brokers/ids/0").data)["port"] == broker.port
    finally:
        broker.close()


def test_a_cluster_that_is_taken_is_refused_by_name(connect: str, tmp_path: Path) -> None:
    with broker_at(connect) as broker:
        other = broker_at(connect, tmp_path / "other", zookeeper_session_timeout_ms="500")
        with pytest.raises(Conflict, match=rf"/brokers/ids/0 .* a broker at PLAINTEXT://{broker.bootstrap} "):
            other.start()
        third = broker_at(connect, tmp_path / "third", broker_id="5", zookeeper_session_timeout_ms="500")
        with pytest.raises(Conflict, match=r"/controller .* belongs to broker 0 .* give this one a chroot"):
            third.start()


def test_a_restart_keeps_topics_and_ids(
    connect: str, zookeeper: KazooZooKeeperSession, tmp_path: Path
) -> None:
    with broker_at(connect, tmp_path) as broker:
        broker.create_topic("orders", 2)
        await_node(zookeeper, STATE.format("orders", 1))
        before = tree(zookeeper, "/brokers/topics")
        assignment = before["/brokers/topics/orders"]
    with broker_at(connect, tmp_path) as broker:
        after = tree(zookeeper, "/brokers/topics")
        assert after.keys() == before.keys()
        assert after["/brokers/topics/orders"] == assignment, "not even written again"
        assert zookeeper.get("/controller_epoch").data == b"2"
    with broker_at(connect) as broker, Client.of(broker.bootstrap) as client:
        answer = client.call(MetadataRequest(topics=None), 1)
        assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("orders", 2)]

"""A Kafka 0.9.0.1 broker writes the nodes that we write and answers version 0 as we do; 3.9.1 reads them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.wire.api.metadata import (
    MetadataPartitionResponse,
    MetadataRequest,
    MetadataTopic,
    MetadataTopicResponse,
)
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from tests.broker.registration import kafka_commands
from tests.broker.registration.offset_requests import commit_request, fetch_request
from tests.broker.registration.znodes import await_node, tree
from tests.broker.wire_client import Client
from tests.waiting import wait_for
from tools.peers import KAFKA_0_9, KAFKA_3, RealKafka, Unavailable, kafka_libs

LATER = {"/cluster", "/cluster/id", "/config/brokers", "/config/users", "/log_dir_event_notification"}
"""What Kafka 0.10.1 and 1.0 added; 0.9 does not mind."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[RealKafka]:
    try:
        with RealKafka(KAFKA_0_9) as kafka:
            yield kafka
    except Unavailable as missing:
        pytest.skip(f"Kafka {KAFKA_0_9} is not here: {missing}")


def created(connect: str) -> dict[str, tuple[bytes, bool]]:
    """All nodes after a topic was created by Kafka's tool, but for addresses and times."""
    options = ["--partitions", "7", "--replication-factor", "1", "--config", "retention.ms=1000"]
    libs = kafka_commands.kafka_0_9_libs()
    command = ["--zookeeper", connect, "--create", "--topic", "orders", *options]
    kafka_commands.run(libs, "kafka.admin.TopicCommand", *command)
    with KazooZooKeeperSession(KazooSettings(connect, connection_timeout_ms=20_000)) as session:
        for index in range(7):
            await_node(session, f"/brokers/topics/orders/partitions/{index}/state")
        return {
            path: (
                re.sub(rb'[0-9]{13}|(?<=[:"])[0-9]{4,5}(?=[,"}])', b"N", node.data),
                bool(node.stat.ephemeral_owner),
            )
            for path, node in tree(session).items()
        }


def test_nodes_are_equal_to_the_byte(kafka: RealKafka, connect: str) -> None:
    theirs = created(kafka.zookeeper)
    with EmbeddedBroker(properties={"zookeeper.connect": connect, "broker.id": "1"}):
        ours = created(connect)
    assert ours.keys() - theirs.keys() == LATER
    assert {path: node for path, node in ours.items() if path not in LATER} == theirs


def test_version_0_of_offsets_is_answered_alike(kafka: RealKafka, connect: str) -> None:
    with EmbeddedBroker(properties={"zookeeper.connect": connect, "broker.id": "1"}) as broker:
        ours = conversation(broker.bootstrap, connect)
    assert ours == conversation(kafka.bootstrap, kafka.zookeeper)


def await_leader(client: Client, topic: str) -> None:
    """Kafka's brokers hear of a topic from their controller, some time after ZooKeeper has it."""
    wait_for(lambda: not any(one.error_code for one in _described(client, topic)), f"{topic} has a leader")


def _described(client: Client, topic: str) -> list[MetadataTopicResponse | MetadataPartitionResponse]:
    found = client.call(MetadataRequest(topics=[MetadataTopic(name=topic)]), 0).topics[0]
    return [found, *found.partitions]


def test_kafka_3_9_reads_them(connect: str) -> None:
    try:
        libs = kafka_libs(KAFKA_3)
    except Unavailable as missing:
        pytest.skip(f"Kafka {KAFKA_3} is not here: {missing}")
    with EmbeddedBroker(brokers=2, properties={"zookeeper.connect": connect}) as broker:
        broker.create_topic("orders", 2, replication_factor=2, config={"retention.ms": "1000"})
        with KazooZooKeeperSession(KazooSettings(connect, connection_timeout_ms=20_000)) as session:
            await_node(session, "/brokers/topics/orders/partitions/1/state")
            nodes = {path: node.data.decode() for path, node in tree(session).items() if node.data}
        ports = [int(address.rpartition(":")[2]) for address in broker.bootstrap.split(",")]
    program = Path(__file__).with_name("ZnodeReader.java")
    read = subprocess.run(
        ["java", "-cp", f"{libs}{os.sep}*", program],
        input="".join(f"{path} {data}\n" for path, data in nodes.items()),
        capture_output=True,
        text=True,
        timeout=kafka_commands.RUN_S,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    told = dict(line.split(" ", 1) for line in read.stdout.splitlines())
    assert told.keys() == nodes.keys()
    for broker_id, port in enumerate(ports):
        listener = f"EndPoint(127.0.0.1,{port},ListenerName(PLAINTEXT),PLAINTEXT)"
        assert told[f"/brokers/ids/{broker_id}"].startswith(f"{broker_id} : ({listener})")
    assert "orders-1 -> ReplicaAssignment(replicas=1,0," in told["/brokers/topics/orders"]
    state = "(Leader:1,ISR:1,0,LeaderRecoveryState:RECOVERED,LeaderEpoch:0,ZkVersion:0,ControllerEpoch:1)"
    assert told["/brokers/topics/orders/partitions/1/state"] == state
    assert told["/config/topics/orders"] == "{retention.ms=1000}"
    assert (told["/controller"], told["/controller_epoch"]) == ("0", "1")
    assert told["/cluster/id"] in nodes["/cluster/id"]


def conversation(bootstrap: str, connect: str) -> list[object]:
    libs = kafka_commands.kafka_0_9_libs()
    options = ["--create", "--topic", "read", "--partitions", "1", "--replication-factor", "1"]
    kafka_commands.run(libs, "kafka.admin.TopicCommand", "--zookeeper", connect, *options)
    requests: list[Any] = [
        fetch_request("g", "read", 0, 1),
        commit_request("g", "read", (0, 5, ""), (1, 6, None), (77, 7, "x" * 4097)),
        commit_request("g", "other", (0, 5, "")),
        commit_request("g", "read", (2, -1, "x" * 4096)),
        fetch_request("g", "read", 0, 1, 2, 77),
        fetch_request("other", "read", 0),
        fetch_request("g", "other", 0),
    ]
    with (
        KazooZooKeeperSession(KazooSettings(connect, connection_timeout_ms=20_000)) as session,
        Client.of(bootstrap) as client,
    ):
        await_node(session, "/brokers/topics/read/partitions/0/state")
        await_leader(client, "read")
        answers: list[object] = [
            [
                sorted(topic.partitions, key=lambda partition: partition.partition_index)
                for topic in client.call(request, 0).topics
            ]
            for request in requests
        ]
        stored = {path: node.data for path, node in tree(session, "/consumers").items()}
        return [*answers, stored]

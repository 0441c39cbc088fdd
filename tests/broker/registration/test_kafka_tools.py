"""Kafka 0.9.0.1's own tools and its classic consumer, which know ZooKeeper only, on brokers of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.zookeeper.kazoo_session import KazooZooKeeperSession
from tests.broker.registration import kafka_commands
from tests.broker.registration.znodes import await_gone, await_node

STATE = "/brokers/topics/{}/partitions/{}/state"


class Tools:
    def __init__(self, libs: Path, connect: str, broker: EmbeddedBroker) -> None:
        self._libs = libs
        self.connect = connect
        self.broker = broker

    def admin(self, name: str, *arguments: str) -> str:
        """One of kafka.admin."""
        return kafka_commands.run(self._libs, f"kafka.admin.{name}", "--zookeeper", self.connect, *arguments)

    def tool(self, name: str, *arguments: str, given: str | None = None) -> str:
        """One of kafka.tools."""
        return kafka_commands.run(self._libs, f"kafka.tools.{name}", *arguments, given=given)


@pytest.fixture
def tools(connect: str) -> Iterator[Tools]:
    libs = kafka_commands.kafka_0_9_libs()
    with EmbeddedBroker(brokers=2, properties={"zookeeper.connect": connect}) as broker:
        yield Tools(libs, connect, broker)


def test_topics_are_created_described_altered_and_deleted(
    tools: Tools, zookeeper: KazooZooKeeperSession
) -> None:
    create = ["--create", "--topic", "orders", "--partitions", "2", "--replication-factor", "2"]
    assert 'Created topic "orders"' in tools.admin("TopicCommand", *create, "--config", "retention.ms=100000")
    await_node(zookeeper, STATE.format("orders", 1))
    tools.admin("TopicCommand", "--alter", "--topic", "orders", "--partitions", "3")
    await_node(zookeeper, STATE.format("orders", 2))
    change = ["--alter", "--entity-type", "topics", "--entity-name", "orders"]
    tools.admin("ConfigCommand", *change, "--add-config", "segment.bytes=100000")
    described = tools.admin("TopicCommand", "--describe", "--topic", "orders").splitlines()
    assert described[0].startswith("Topic:orders\tPartitionCount:3\tReplicationFactor:2\tConfigs:")
    assert set(described[0].split("Configs:")[1].split(",")) == {
        "retention.ms=100000",
        "segment.bytes=100000",
    }
    for line in described[1:4]:
        leader, replicas, in_sync = (
            line.split(f"{name}: ")[1].split("\t")[0] for name in ("Leader", "Replicas", "Isr")
        )
        assert replicas in {"0,1", "1,0"}
        assert (leader, in_sync) == (replicas[0], replicas)
    tools.admin("TopicCommand", "--delete", "--topic", "orders")
    await_gone(zookeeper, "/admin/delete_topics/orders")
    assert "orders" not in tools.admin("TopicCommand", "--list")


def test_the_classic_consumer_reads_and_its_offsets_are_checked(tools: Tools, tmp_path: Path) -> None:
    tools.broker.create_topic("orders", 2)
    sent = [f"message {index}" for index in range(20)]
    produce = ["--broker-list", tools.broker.bootstrap, "--topic", "orders"]
    tools.tool("ConsoleProducer", *produce, given="\n".join(sent) + "\n")
    config = tmp_path / "consumer.properties"
    config.write_text("group.id=billing\n")
    read = ["--zookeeper", tools.connect, "--topic", "orders", "--consumer.config", str(config)]
    limits = ["--from-beginning", "--max-messages", str(len(sent)), "--timeout-ms", "60000"]
    printed = tools.tool("ConsoleConsumer", *read, *limits)
    assert sorted(line for line in printed.splitlines() if line.startswith("message")) == sorted(sent)
    checked = tools.tool("ConsumerOffsetChecker", "--zookeeper", tools.connect, "--group", "billing")
    rows = [line.split() for line in checked.splitlines() if line.startswith("billing")]
    assert [(row[1], row[2], row[5]) for row in rows] == [("orders", "0", "0"), ("orders", "1", "0")]
    assert sum(int(row[3]) for row in rows) == len(sent)


def test_leaders_are_elected_and_partitions_reassigned(
    tools: Tools, zookeeper: KazooZooKeeperSession, tmp_path: Path
) -> None:
    tools.broker.create_topic("orders", 2, replication_factor=2)
    tools.broker.stop_broker(1)
    tools.broker.start_broker(1)
    await_node(zookeeper, STATE.format("orders", 1), lambda data: json.loads(data)["isr"] == [1, 0])
    tools.admin("PreferredReplicaLeaderElectionCommand")
    await_node(zookeeper, STATE.format("orders", 1), lambda data: json.loads(data)["leader"] == 1)
    await_gone(zookeeper, "/admin/preferred_replica_election")
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1]}]}')
    tools.admin("ReassignPartitionsCommand", "--execute", "--reassignment-json-file", str(plan))
    await_gone(zookeeper, "/admin/reassign_partitions")
    verified = tools.admin("ReassignPartitionsCommand", "--verify", "--reassignment-json-file", str(plan))
    assert "Reassignment of partition [orders,0] completed successfully" in verified
    assert json.loads(zookeeper.get(STATE.format("orders", 0)).data)["leader"] == 1

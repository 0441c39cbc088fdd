"""ZooKeeper can be reached, and names a broker that no client can work with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla import ConsumerConnector, ConsumerTimeout
from ottla.model.address import parse_address
from ottla.model.errors import LocalProtocolError
from ottla.zookeeper import paths
from ottla.zookeeper.broker_znodes import BrokerRegistration, Endpoint, encode_broker
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.recipes import write_persistent
from ottla.zookeeper.server import ZooKeeperServer
from ottla.zookeeper.topic_znodes import (
    PartitionStateZnode,
    TopicAssignment,
    encode_assignment,
    encode_partition_state,
)
from tests.cli.kafka.conftest import ours
from tests.client.bad_peers import BAD_PEERS
from tests.waiting import wait_for

TOPIC = "orders"


class Cluster(NamedTuple):
    """A cluster of one bad broker."""

    connect: str
    address: str
    cause: str
    timeout_ms: int


@pytest.fixture(scope="module", params=BAD_PEERS)
def cluster(request: pytest.FixtureRequest, zookeeper_server: ZooKeeperServer) -> Iterator[Cluster]:
    serve, cause, timeout_ms = BAD_PEERS[request.param]
    connect = f"{zookeeper_server.connect}/bad-{list(BAD_PEERS).index(request.param)}"
    settings = KazooSettings(connect, connection_timeout_ms=30_000)
    with serve() as address, KazooZooKeeperSession(settings) as session:
        broker = BrokerRegistration((Endpoint(*parse_address(address)),), timestamp_ms=1)
        write_persistent(session, paths.broker(0), encode_broker(broker))
        write_persistent(session, paths.topic(TOPIC), encode_assignment(TopicAssignment({0: (0,)})))
        state = PartitionStateZnode(leader=0, leader_epoch=0, controller_epoch=0, isr=(0,))
        write_persistent(session, paths.partition_state(TOPIC, 0), encode_partition_state(state))
        yield Cluster(connect, address, cause, timeout_ms)


def test_a_timeout_of_a_stream_names_the_cause(cluster: Cluster) -> None:
    settings = {
        "zookeeper.connect": cluster.connect,
        "group.id": "streams",
        "consumer.timeout.ms": 50,
        "api.version.request.timeout.ms": cluster.timeout_ms,
    }
    with ConsumerConnector(settings) as connector:
        (stream,) = connector.create_message_streams({TOPIC: 1})[TOPIC]

        def said() -> str:
            # What no wait can cure stops the partition, and is raised as it is.
            with pytest.raises((ConsumerTimeout, LocalProtocolError)) as raised:
                next(stream)
            return str(raised.value)

        wait_for(lambda: re.search(f"{cluster.address}.*{cluster.cause}", said()))
        assert re.search(cluster.cause, str(connector.network_error))


@pytest.mark.parametrize("tool", ["console consumer", "consume"])
def test_a_tool_names_the_cause(tool: str, cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    limits = f"api.version.request.timeout.ms={cluster.timeout_ms}\nzookeeper.connection.timeout.ms=30000\n"
    file.write_text(limits)
    line = {
        "console consumer": ("kafka-console-consumer", "--topic", TOPIC, "--consumer.config", str(file)),
        "consume": ("consume", TOPIC, "--config", str(file)),
    }[tool]
    run = ours(*line, "--zookeeper", cluster.connect)
    assert run.code == 1
    assert not run.printed
    (said,) = [line for line in run.complaints.splitlines() if cluster.address in line]
    assert re.search(cluster.cause, said)
